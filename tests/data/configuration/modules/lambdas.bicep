var dogs = [
  { name: 'Evie', age: 5, tags: ['a'] }
  { name: 'casper', age: 3, tags: [] }
  { name: 'Indy', age: 2, tags: ['b', 'c'] }
  { name: 'Kira', age: 8, tags: ['a', 'c'] }
]
var byName = { one: 1, two: 2, Three: 3 }

resource lambdas 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'lambdas'
  location: resourceGroup().location
  tags: any({
    map: map(dogs, dog => dog.name)
    mapWithIndex: map(dogs, (dog, i) => '${i}-${dog.name}')
    mapNested: map(dogs, dog => map(dog.tags, tag => '${dog.name}:${tag}'))
    mapOfNone: map([], each => each)
    filter: filter(dogs, dog => dog.age > 3)
    filterWithIndex: filter(dogs, (dog, i) => i > 1 && dog.age > 3)
    reduce: [
      reduce([1, 2, 3], 0, (total, next) => total + next)
      reduce([], 'start', (total, next) => next)
      reduce(['a', 'b'], '', (total, next, i) => '${total}${i}${next}')
      reduce([{ a: 1 }, { b: 2 }], {}, (total, next) => union(total, next))
    ]
    sort: [
      sort([3, 1, 2], (one, two) => one < two)
      sort(['b', 'C', 'a', 'B'], (one, two) => one < two)
      map(sort(dogs, (one, two) => one.age >= two.age), dog => dog.name)
      sort([], (one, two) => one < two)
    ]
    toObject: [
      toObject(dogs, dog => dog.name)
      toObject(dogs, dog => dog.name, dog => dog.age)
      toObject([], each => each)
    ]
    groupBy: [
      groupBy(dogs, dog => length(dog.tags) > 1 ? 'many' : 'few')
      groupBy(['a', 'B', 'b'], each => each)
      groupBy([], each => each)
      map(items(groupBy(dogs, dog => first(dog.tags) ?? 'none')), group => [group.key, length(group.value)])
    ]
    groupByValues: groupBy(dogs, dog => string(length(dog.tags)), dog => dog.name)
    mapValues: mapValues(byName, value => value * 10)
    items: map(items(byName), each => '${each.key}=${each.value}')
    nested: reduce(map(filter(dogs, dog => !empty(dog.tags)), dog => dog.tags), [], (all, tags) => union(all, tags))
    shadowed: map([1, 2], x => map([10], y => x + y))
    objectOfEach: map(range(0, 2), i => { index: i, even: i % 2 == 0, list: [i, ...range(0, i)] })
  })
}
