param seven int = 7
param minusSeven int = -7
param yes bool = true
param no bool = false

resource numbers 'Microsoft.EventGrid/topics@2025-02-15' = {
  name: 'numbers'
  location: resourceGroup().location
  tags: any({
    add: [seven + 1, seven + minusSeven, 4611686018427387904 + 4611686018427387903]
    sub: [seven - 8, 0 - seven, -seven]
    mul: [seven * minusSeven, seven * 0]
    div: [seven / 2, minusSeven / 2, seven / -2, 0 / seven, 9007199254740993 / 1]
    mod: [seven % 3, minusSeven % 3, seven % -3, 0 % seven]
    compare: [seven < 8, seven <= 7, seven > 7, seven >= 7, minusSeven < seven]
    equals: [seven == 7, seven != 7, seven == any('7'), any(1) == any(true), null == any(0)]
    not: [!yes, !no, !(seven == 7)]
    and: [yes && no, yes && yes, no && bool('fail')]
    or: [yes || no, no || no, yes || bool('fail')]
    if: [yes ? 'yes' : 'no', no ? 'yes' : 'no', yes ? 1 : int('fail'), no ? any(null) : any([])]
    constants: [true, false, null]
    int: [int('007'), int('-0'), int(seven)]
    bool: [bool(1), bool(0), bool('false')]
    string: [string(seven), string(minusSeven), string(yes)]
    large: [9223372036854775807, -9223372036854775808]
    cidr: [
      parseCidr('10.144.0.0/20')
      parseCidr('fdad:3236:5555::/48')
      cidrSubnet('10.144.0.0/20', 24, 3)
      cidrSubnet('fdad:3236:5555::/48', 52, 2)
      cidrHost('10.144.3.0/24', 4)
      cidrHost('fdad:3236:5555:3000::/52', 4)
    ]
  })
}
