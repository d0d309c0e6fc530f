metadata description = 'Types that main.bicep and the modules share. Nothing is deployed by this file.'

@export()
@description('Tags: any name, always a string.')
type tagsType = {
  @description('Value of one tag.')
  *: string
}

@export()
@description('Editions of the delivery rules that the app knows (docs/delivery-profiles.md).')
type profileType = '2017' | '2019' | '2020' | '2023' | 'latest' | 'ns'

@export()
@description('Memory sizes that a Flex Consumption instance can have, in MB.')
type instanceMemoryType = 512 | 2048 | 4096

@export()
@description('Redundancy of the storage account.')
type storageSkuType = 'Standard_LRS' | 'Standard_ZRS' | 'Standard_GRS' | 'Standard_GZRS'

@export()
@description('Kinds of principal that deploy: a person, or a pipeline.')
type principalKindType = 'User' | 'ServicePrincipal'

@export()
@description('Names of the resources, made in main.bicep. Who needs the id or an address of a resource makes it from the name.')
type namesType = {
  @description('Identity under which the app runs.')
  identity: string

  @description('Identity under which the platform writes and reads the package.')
  packageIdentity: string

  @description('Log Analytics workspace.')
  workspace: string

  @description('Application Insights component.')
  insights: string

  @description('Storage account: 3 to 24 lower-case letters and digits.')
  @minLength(3)
  @maxLength(24)
  storageAccount: string

  @description('Container that holds the deployed package.')
  packageContainer: string

  @description('Vault: 3 to 24 letters, digits and hyphens.')
  @minLength(3)
  @maxLength(24)
  vault: string

  @description('Key Vault secret with the key of the management API.')
  adminKeySecret: string

  @description('Virtual network.')
  network: string

  @description('Subnet of the virtual network that is delegated to the app.')
  appSubnet: string

  @description('Plan. A Flex Consumption plan holds one app.')
  plan: string

  @description('Function app, by which its log lines are known.')
  app: string

  @description('Action group, to which every alert goes.')
  actionGroup: string
}

@export()
@description('How far, and in what size, the app scales.')
type scaleType = {
  @description('Memory of each instance.')
  instanceMemoryMB: instanceMemoryType

  @description('Most on-demand instances of one function group. HTTP functions form one group; every other function is a group of its own.')
  @minValue(1)
  @maxValue(1000)
  maximumInstanceCount: int

  @description('HTTP requests that one instance takes at the same time, each on a thread of its own.')
  @minValue(1)
  @maxValue(64)
  httpConcurrency: int

  @description('HTTP instances that are kept warm; 0 scales to zero.')
  @minValue(0)
  @maxValue(1000)
  httpAlwaysReady: int
}

@export()
@description('Which delivery attempts the app keeps in its tables.')
type attemptLogType = 'failures' | 'all' | 'off'

@export()
@description('Whether the log has a line for each commit of publish requests, or for each request.')
type publishLogType = 'commits' | 'requests'

@export()
@description('Settings of the app that a deployment may choose; docs/deploy.md says what each is for. An empty text leaves the default of the app.')
type settingsType = {
  @description('Name of the Key Vault secret with a second key of the management API; empty for none.')
  secondAdminKeyName: string

  @description('Name of the Key Vault secret with the key of readers; empty for none.')
  readerKeyName: string

  @description('Default delivery profile.')
  profile: profileType

  @description('Address under which publishers and subscribers reach the app; empty means the default host name of the app.')
  publicUrl: string

  @description('Whether endpoints may have no TLS.')
  allowHttp: bool

  @description('Networks (CIDR, comma-separated) that may be reached though they are not public.')
  allowedNetworks: string

  @description('Name of the Key Vault secret with certificate authorities to trust as well.')
  caBundleName: string

  @description('Name of the Key Vault secret with a certificate and its key to present to endpoints.')
  clientCertificateName: string

  @description('Proxy through which endpoints are reached.')
  egressProxy: string

  @description('Which delivery attempts are kept.')
  attemptLog: attemptLogType

  @description('What the log has a line for: commits or publish requests.')
  publishLog: publishLogType

  @description('When dead letters are written: NCRONTAB, seconds first.')
  deadletterSchedule: string

  @description('Whether Retry-After of 429 and 503 is followed.')
  honorRetryAfter: bool

  @description('Whether a time slot in which an event is held counts as an attempt.')
  probationCountsAttempt: bool

  @description('Whether probation after a client error dead-letters held events.')
  probationEndsEvents: bool

  @description('Whether deliveries carry the trace context of their events.')
  traceContext: bool

  @description('Whether what endpoints answer to failed attempts is kept.')
  endpointAnswers: bool

  @description('Whether deliveries of a replay have the header aeg-replay-of.')
  replayHeader: bool

  @description('Header in which the front end tells the address of a publisher.')
  clientIpHeader: string

  @description('Tenant whose access tokens are accepted.')
  entraTenant: string

  @description('Audiences of the tokens of publishers, comma-separated.')
  entraAudience: string

  @description('Audiences of the tokens of operators, comma-separated.')
  entraManagementAudience: string

  @description('Application whose tokens protected webhooks get.')
  webhookClientId: string

  @description('Name of the Key Vault secret with the secret of that application.')
  webhookSecretName: string

  @description('Name of the Key Vault secret with the certificate of that application, instead of a secret.')
  webhookCertificateName: string

  @description('Other storage accounts to which dead letters may go, each name=endpoint, comma-separated.')
  deadletterAccounts: string
}

@export()
@description('Limits at which alerts are raised.')
type alertLimitsType = {
  @description('Age in minutes of the oldest visible message of a queue.')
  @minValue(1)
  oldestMessageMinutes: int

  @description('Failed publish requests (status 500 and above) in a quarter of an hour.')
  @minValue(0)
  publishFailures: int

  @description('Messages in all queues of the account.')
  @minValue(1)
  queuedMessages: int
}

@export()
@description('Monthly budget of the resource group.')
type budgetType = {
  @description('Amount in the currency of the subscription; 0 for no budget.')
  @minValue(0)
  amount: int

  @description('First day of the first month, for example 2027-01-01; empty for no budget. It cannot be moved later.')
  startDate: string
}
