param start string = '2026-02-28T23:30:00Z'

resource dates 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'dates'
  location: resourceGroup().location
  tags: any({
    add: [
      dateTimeAdd(start, 'PT1H')
      dateTimeAdd(start, '-PT1H')
      dateTimeAdd(start, 'P1D')
      dateTimeAdd(start, 'P1M')
      dateTimeAdd(start, 'P1Y')
      dateTimeAdd(start, '-P3Y')
      dateTimeAdd(start, 'P1Y2M3DT4H5M6S')
      dateTimeAdd('2024-01-31T00:00:00Z', 'P1M')
    ]
    format: [
      dateTimeAdd(start, 'PT1H', 'yyyy-MM-dd')
      dateTimeAdd(start, 'PT1H', 'yyyy-MM-ddTHH:mm:ssZ')
      dateTimeAdd(start, 'PT1H', 'u')
      dateTimeAdd(start, 'PT1H', 's')
      dateTimeAdd(start, 'PT1H', 'd')
      dateTimeAdd(start, 'PT1H', 'dddd, d MMMM yy h:mm tt')
      dateTimeAdd(start, 'PT1H', 'D')
      dateTimeAdd(start, 'PT1H', 'f')
      dateTimeAdd(start, 'PT1H', 'F')
      dateTimeAdd(start, 'PT1H', 'g')
      dateTimeAdd(start, 'PT1H', 'G')
      dateTimeAdd(start, 'PT1H', 'm y t T r')
      dateTimeAdd(start, 'PT1H', 'm')
      dateTimeAdd(start, 'PT1H', 'r')
      dateTimeAdd(start, 'PT1H', 't')
      dateTimeAdd(start, 'PT1H', 'T')
      dateTimeAdd(start, 'PT1H', 'Y')
      dateTimeAdd(start, 'PT1H', '%d')
      dateTimeAdd(start, 'PT1H', '%h %m')
      dateTimeAdd(start, 'PT1H', '\'at\' HH "h" \\d ddd MMM yyyyy z zz zzz K')
      dateTimeAdd('2026-02-28T12:00:00.123456Z', 'PT0.5S', 'o')
      dateTimeAdd('2026-02-28T12:00:00.120Z', 'PT0S', 'f ff fffffff F FF FFFFFFF')
      dateTimeAdd('2026-02-28T12:00:00.12Z', 'PT0S', 'ss.ff|ss.FFFF|ss.fffffff')
    ]
    written: [
      dateTimeAdd('2026-02-28', 'P1D')
      dateTimeAdd('2026-02-28T12:00:00', 'P1D')
      dateTimeAdd('2026-02-28T12:00:00.123Z', 'P1D')
      dateTimeAdd('2026-02-28T12:00:00+02:00', 'P1D')
      dateTimeAdd('2026-02-28 12:00:00Z', 'P1D')
      dateTimeAdd('2026-02-28T12:00Z', 'P1D')
      dateTimeAdd('2026-02-28T12:00:00+0230', 'P1D')
      dateTimeAdd('02/28/2026 12:00:00', 'P1D')
    ]
    toEpoch: [dateTimeToEpoch(start), dateTimeToEpoch('1970-01-01T00:00:00Z')]
    fromEpoch: [dateTimeFromEpoch(1683040573), dateTimeFromEpoch(0)]
    afterEpoch: dateTimeAdd(dateTimeFromEpoch(1683040573), 'P1Y')
  })
}
