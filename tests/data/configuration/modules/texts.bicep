var long = 'The quick brown fox'
var smile = 'a🙂b'
var lines = '''
one
  two'''
var word = 'Straße'
var fractions = json('[12345.678, -1234.5, 0.00001234, 1e15, 1.5e16, 1e17, 1e20, 1.0, 0.0001, -0.004, -0.0, 2.5, 1234567890123456.8]')

resource cut 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'texts-cut'
  location: resourceGroup().location
  tags: any({
    first: first(long)
    firstOfNone: first('')
    last: last(long)
    lastOfNone: last('')
    length: length(long)
    lengthBeyond16Bits: length(smile)
    skip: skip(long, 4)
    skipAll: skip(long, 99)
    skipLess: skip(long, -1)
    substring: substring(long, 4)
    substringOfLength: substring(long, 4, 5)
    substringAtEnd: substring(long, 19)
    take: take(long, 3)
    takeAll: take(long, 99)
    takeLess: take(long, -1)
    takeBeyond16Bits: take(smile, 3)
    trim: trim(' \ta b\n ')
    trimLittle: trim('\u{1c}a\u{85}')
    trimWide: trim('\u{00a0}a\u{2003}')
    lines: lines
    empty: [empty(''), empty(' ')]
  })
}

resource find 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'texts-find'
  location: resourceGroup().location
  tags: any({
    contains: [contains(long, 'quick'), contains(long, 'Quick'), contains(long, ''), contains('123', '2')]
    endsWith: [endsWith(long, 'FOX'), endsWith(long, 'brown'), endsWith(long, '')]
    startsWith: [startsWith(long, 'tHE'), startsWith(long, 'quick'), startsWith(word, 'STRASSE')]
    indexOf: [indexOf(long, 'O'), indexOf(long, 'none'), indexOf(long, ''), indexOf(smile, 'B')]
    lastIndexOf: [lastIndexOf(long, 'O'), lastIndexOf(long, 'none'), lastIndexOf(smile, 'b')]
    equals: [long == 'The quick brown fox', long == toLower(long), long =~ toUpper(long), 'a' !~ 'A', 'a' != 'b']
    compare: ['a' < 'b', 'a' < 'B', 'A' < 'a', 'a' <= 'a', 'b' > 'a', 'a' >= 'b', '10' < '9', '_' < 'a']
  })
}

resource change 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'texts-change'
  location: resourceGroup().location
  tags: any({
    base64: base64('ÄÖ and 🙂')
    base64ToString: base64ToString('w4TDliBhbmQg8J+Zgg==')
    base64ToJson: base64ToJson('eyJhIjpbMSx0cnVlLG51bGxdfQ==')
    concat: concat('a', 'b', long)
    dataUri: [dataUri('Hello'), dataUri(any(7)), dataUri(any({ a: [true] }))]
    dataUriToString: [dataUriToString('data:;base64,SGVsbG8='), dataUriToString('data:text/plain,a%20b')]
    join: [join(['a', 'b'], ', '), join(any([1, true, 'x']), '-'), join([], ',')]
    json: [json('{"a": [1, "b", null, true]}'), json('"text"'), json('7'), json('[ ]')]
    padLeft: [padLeft('7', 3, '0'), padLeft(7, 5), padLeft('seven', 3), padLeft(-7, 4, '0')]
    replace: [replace(long, 'o', '0'), replace(long, 'THE', 'a'), replace('aaa', 'aa', 'b'), replace('a', 'a', '')]
    split: [split('a,b,,c', ','), split('a;b,c', [',', ';']), split('', ','), split('a--b', '--'), split('abc', '')]
    string: [string('a'), string(1), string(true), string([1, 'a', null, false]), string({ a: { b: 'ä"\\' } }), string(fractions), string(json('{"c":0.00001234,"d":1e20}'))]
    toLower: [toLower('ÀÉ ABC'), toLower('ΑΣ'), toLower(word)]
    toUpper: [toUpper('àé abc'), toUpper(word), toUpper('ﬁ'), toUpper('ıſµ'), toLower('İK')]
    uri: [
      uri('https://a.example/b/', 'c')
      uri('https://a.example/b', 'c')
      uri('https://a.example/b/', '/c?d=e')
      uri('https://a.example', 'c')
      uri('http://a.example:8080/b/c/', '../d')
      uri('HTTPS://A.example:443/b?q=1#f', 'C')
    ]
    uriComponent: uriComponent('https://a.example/b c?d=é&f=~!\'()*_.-')
    uriComponentToString: uriComponentToString('https%3A%2F%2Fa.example%2Fb%20c%3Fd%3D%C3%A9+x')
    bool: [bool('true'), bool('FALSE'), bool('True')]
    int: [int('42'), int('-7'), int(7), int(' 8 ')]
    array: [array('a'), array(1), array([1]), array({ a: 1 })]
    guid: [guid('a'), guid('a', 'b', 'c'), guid(resourceGroup().id)]
    uniqueString: [uniqueString('a'), uniqueString('a', 'b', 'c'), uniqueString(resourceGroup().id)]
    parseUri: parseUri('https://user@a.example:8443/b/c?d=e#f')
    buildUri: [
      buildUri({ scheme: 'https', host: 'a.example', port: 8443, path: '/b/c', query: '?d=e' })
      buildUri(any({ Scheme: 'http', HOST: 'a.example', query: 'd=e' }))
    ]
  })
}

resource formats 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'texts-formats'
  location: resourceGroup().location
  tags: any({
    plain: format('{0}-{1}-{0}', 'a', 7)
    braces: format('{{{0}}} }} {{', 'a')
    digits: [format('{0:D3}', 7), format('{0:D3}', 12345), format('{0:D3}', -7), format('{0:d}', 7), format('{0:D}', 7)]
    hexadecimal: [format('{0:X}', 255), format('{0:x4}', 255), format('{0:X8}', -1)]
    fixed: [format('{0:F2}', 7), format('{0:F0}', 7), format('{0:f}', -7), format('{0:N}', 1234567), format('{0:N0}', 1234567)]
    percent: [format('{0:P0}', 1), format('{0:P}', 1), format('{0:E2}', 1234), format('{0:G}', 1234)]
    custom: [format('{0:000}', 7), format('{0:#,##0}', 1234567), format('{0:00.00}', 7), format('{0:0%}', 1)]
    currency: format('{0:C}', 7)
    width: [format('[{0,5}]', 'a'), format('[{0,-5}]', 'a'), format('[{0,5:D3}]', 7), format('[{0,2}]', 'abc')]
    kinds: format('{0} {1} {2}', true, 'a', -1)
    collections: [format('{0}', [1, 'a']), format('{0}', { a: 1 })]
    interpolated: '${long}/${7}/${true}'
    formOfText: format('{0:D3}', 'a')
    fractions: map(fractions, each => format('{0} {0:G} {0:R} {0:g4} {0:F1} {0:E2} {0:N0} {0:P1} {0:C} {0:0.##}', each))
    general: [format('{0:G5}|{0:g}|{0:G20}|{0:G0}', fractions[0]), format('{0:G2} {0:g3} {0:G12}', 1234567)]
    binary: [format('{0:B} {0:b8} {1:B}', 5, -1)]
    negative: [format('{0:#,##0.00;(#,##0.00)}', fractions[1]), format('{0:0;(0)}', -5), format('a{0:a0b}b', 5)]
    largest: uniqueString(format('{0:P0} {0:0}', json('1.7976931348623157e308')))
    listed: format('{0}', fractions)
  })
}
