import * as shared from 'shared.bicep'

type range = { from: int, to: int }

func double(number int) int => number * 2
func twice(number int) int => double(number) + double(number)
func describe(each range, unit string?) string => '${each.from}-${each.to} ${unit ?? 'days'}'
func names(prefix string, count int) string[] => map(range(0, count), i => '${prefix}-${i}')
func choose(yes bool) object => yes ? { answer: 'yes' } : { answer: 'no', why: ['a', 'b'] }
func plain() string => 'plain'

resource functions 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'functions-${plain()}'
  location: resourceGroup().location
  tags: any({
    double: [double(2), twice(3), double(1)]
    describe: [describe({ from: 1, to: 2 }, null), describe({ from: 1, to: 2 }, 'hours')]
    names: names('a', 3)
    choose: [choose(true), choose(false).?why[1], choose(false).answer]
    inLambda: map([1, 2], each => double(each))
    imported: [shared.prefixOf('b', 1), shared.defaults.names]
  })
}
