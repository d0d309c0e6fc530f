param numbers array = [3, 1, 2]
var mixed = any([1, 'a', true, null, { a: 1 }, [1]])
param none array = []

resource arrays 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'arrays'
  location: resourceGroup().location
  tags: any({
    concat: concat([1], ['a'], [[2]])
    contains: [contains(numbers, 2), contains(['a'], 'A'), contains(mixed, any({ a: 1 })), contains(mixed, any([1]))]
    containsKinds: [contains(any([1]), '1'), contains(any(['true']), true), contains(mixed, null)]
    createArray: [1, 'a', [], {}]
    empty: [empty(none), empty(numbers)]
    first: [first(numbers), first(none)]
    last: [last(numbers), last(none)]
    length: [length(numbers), length(none)]
    flatten: flatten([[1, 2], [], [[3]], ['a']])
    indexOf: [indexOf(numbers, 2), indexOf(numbers, 9), indexOf(['a', 'B'], 'b'), indexOf([1, 2, 1], 1)]
    lastIndexOf: [lastIndexOf([1, 2, 1], 1), lastIndexOf(numbers, 9)]
    intersection: [intersection([1, 2, 3, 2], [3, 2]), intersection(['a', 'B'], ['A', 'B'], ['B']), intersection([1], [])]
    max: [max(numbers), max(1, 5, 3)]
    min: [min(numbers), min(1, 5, 3), min(-1, 0)]
    range: [range(3, 4), range(-2, 3), range(0, 0)]
    skip: [skip(numbers, 1), skip(numbers, 9), skip(numbers, -1)]
    take: [take(numbers, 2), take(numbers, 9), take(numbers, 0)]
    union: [union([1, 2, 2], [3, 1]), union(['a'], ['A']), union([{ a: 1 }], [{ a: 1 }, { a: 2 }])]
    element: [numbers[1], numbers[^1], mixed[4].a]
    elementIfAny: [numbers[?9], numbers[?1], numbers[?^9], numbers[?^1], mixed[?4].?a, mixed[?9].?a]
    spread: [0, ...numbers, ...none, 4]
    equals: [numbers == [3, 1, 2], numbers == [1, 2, 3], ['a'] == ['A'], none == [], [1] == any(['1'])]
    coalesce: [none[?0] ?? 'fallback', numbers[?0] ?? 9, null ?? none[?1] ?? null]
    asserted: numbers[?0]!
    join: join(map(numbers, each => string(each)), '+')
    nested: [[1, [2, [3]]], [[], [[]]]]
  })
}
