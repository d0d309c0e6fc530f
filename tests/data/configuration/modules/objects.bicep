param own object = { a: 1, B: 'two', c: { d: [1, { e: 'deep' }] }, n: null }
param other object = { b: 'TWO', c: { f: true } }
param name string = 'computed'

resource objects 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'objects'
  location: resourceGroup().location
  tags: any({
    contains: [contains(own, 'a'), contains(own, 'A'), contains(own, 'x'), contains(own, 'n')]
    createObject: { '${name}-${1}': name, 'a b': 1, '[x]': '[y]' }
    empty: [empty({}), empty(own)]
    equals: [own == own, { a: 1 } == { a: 1 }, { a: 1 } == { A: 1 }, { a: 1, b: 2 } == { b: 2, a: 1 }]
    intersection: [intersection(own, { a: 1, B: 'three' }), intersection({ a: { b: 1, c: 2 } }, { a: { b: 1 } })]
    items: items({ b: 1, a: { c: 2 }, B2: 3, _: 4 })
    json: json('{"a": {"b": 1.5e1}, "c": "\\u00e4"}')
    length: [length(own), length({})]
    member: [own.a, own.B, own.c.d[1].e, own['c'].d[0]]
    memberIfAny: [own.?a, own.?x, own.?x.y, own.?x.?y.z, own.c.?d[1].e, own.n.?x, own[?name]]
    memberOfOther: any(own).b
    objectKeys: [objectKeys({ b: 1, A: 2, c: 3, B2: 0 }), objectKeys({})]
    union: [union(own, other), union({ a: [1] }, { a: [2] }), union({ a: 1 }, { a: null })]
    shallowMerge: shallowMerge([own, other, { a: 2 }])
    spread: { x: 0, ...own, ...{ a: 3, c: null }, y: 1 }
    coalesce: [own.?x ?? 'none', own.n ?? 'null', own.a ?? 'given']
    string: string(own)
    tryGet: [any(own).?c.?d, own[?'B'] ?? 'no']
  })
}
