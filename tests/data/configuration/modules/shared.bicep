@export()
type endpoint = {
  url: string
  timeout: int?
}

@export()
var defaults = { days: 3, batch: base * 10, names: map(range(0, 2), i => 'n${i}') }

var base = 2

@export()
func prefixOf(name string, days int) string => '${upper(name)}-${days + base}'

func upper(name string) string => toUpper(name)
