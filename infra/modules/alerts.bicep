metadata description = 'Action group, alert rules and an optional budget.'

import { alertLimitsType, budgetType, namesType, tagsType } from 'types.bicep'

@description('Names of the resources.')
param names namesType

@description('Region of the log rules.')
param location string

@description('Tags of every resource.')
param tags tagsType

@description('Mail address that gets the alerts; empty for none.')
param email string

@description('Limits at which alerts are raised.')
param limits alertLimitsType

@description('Monthly budget of the resource group.')
param budget budgetType

// Storage has no metric for the age of a queue, so the dead-letter timer writes a line of JSON for each queue that holds
// messages (event queue.depth: queue, messages, oldest_seconds) and one for each blob of dead letters (event
// deadletter_batch: count). docs/operating.md lists the lines; tests compare these queries with what the code writes. ItemCount is
// how many items a row stands for where Application Insights has sampled.
var logRules = [
  {
    name: 'pushgrid-dead-letters'
    description: 'Events were given up and written as dead letters.'
    severity: 2
    window: 'PT15M'
    query: '''
      AppTraces
      | where AppRoleName =~ "{0}" and Message has "deadletter_batch"
      | extend Line = parse_json(Message)
      | where tostring(Line.event) == "deadletter_batch"
      | summarize Value = sum(tolong(Line.count) * ItemCount) by
          Subscription = strcat(tostring(Line.topic), "/", tostring(Line.subscription)),
          Cause = tostring(Line.cause)
    '''
    dimensions: ['Subscription', 'Cause']
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'pushgrid-dropped-events'
    description: 'Events ended without a dead letter.'
    severity: 2
    window: 'PT15M'
    query: '''
      AppTraces
      | where AppRoleName =~ "{0}" and Message has "delivery.dropped"
      | extend Line = parse_json(Message)
      | where tostring(Line.event) == "delivery.dropped"
      | summarize Value = sum(tolong(Line.count) * ItemCount) by
          Subscription = strcat(tostring(Line.topic), "/", tostring(Line.subscription)),
          Cause = tostring(coalesce(Line.cause, Line.reason))
    '''
    dimensions: ['Subscription', 'Cause']
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'pushgrid-held-endpoints'
    description: 'An endpoint is sent nothing for a while, after failures or because somebody paused it.'
    severity: 3
    window: 'PT15M'
    query: '''
      AppTraces
      | where AppRoleName =~ "{0}" and Message has "hold.began"
      | extend Line = parse_json(Message)
      | where tostring(Line.event) == "hold.began"
      | summarize Value = sum(ItemCount) by
          Subscription = strcat(tostring(Line.topic), "/", tostring(Line.subscription)),
          Cause = tostring(Line.cause)
    '''
    dimensions: ['Subscription', 'Cause']
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'pushgrid-oldest-message'
    description: 'The oldest visible message of a queue is too old: deliveries do not keep up.'
    severity: 2
    window: 'PT15M'
    query: '''
      AppTraces
      | where AppRoleName =~ "{0}" and Message has "queue.depth"
      | extend Line = parse_json(Message)
      | where tostring(Line.event) == "queue.depth"
      | summarize Value = max(toreal(Line.oldest_seconds)) / 60
    '''
    dimensions: []
    aggregation: 'Maximum'
    operator: 'GreaterThan'
    threshold: limits.oldestMessageMinutes
  }
  {
    name: 'pushgrid-waiting-events'
    description: 'Over 1,000 events of an event subscription wait: its endpoint fails, is too slow, or is held.'
    severity: 2
    window: 'PT15M'
    query: '''
      AppTraces
      | where AppRoleName =~ "{0}" and Message has "events.waiting"
      | extend Line = parse_json(Message)
      | where tostring(Line.event) == "events.waiting"
      | summarize Value = max(tolong(Line.events)) by
          Subscription = strcat(tostring(Line.topic), "/", tostring(Line.subscription)),
          Cause = tostring(Line.cause)
    '''
    dimensions: ['Subscription', 'Cause']
    aggregation: 'Maximum'
    operator: 'GreaterThan'
    threshold: 1000
  }
  {
    name: 'pushgrid-publish-failures'
    description: 'Publish requests were answered with a status of 500 or above.'
    severity: 1
    window: 'PT15M'
    query: '''
      AppRequests
      | where AppRoleName =~ "{0}" and OperationName startswith "publish_"
      | where toint(ResultCode) >= 500
      | summarize Value = sum(ItemCount)
    '''
    dimensions: []
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: limits.publishFailures
  }
  {
    name: 'pushgrid-damaged-tables'
    description: 'A row of a table cannot be read, or a table is gone: its events wait for somebody to restore it.'
    severity: 1
    window: 'PT15M'
    query: '''
      AppTraces
      | where AppRoleName =~ "{0}" and (Message has "document.unreadable" or Message has "table.missing")
      | extend Line = parse_json(Message)
      | where tostring(Line.event) in ("document.unreadable", "table.missing")
      | summarize Value = sum(ItemCount)
    '''
    dimensions: []
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'pushgrid-heartbeat'
    description: 'The timer function did not run for half an hour: the host is down or cannot reach its storage.'
    severity: 1
    window: 'PT30M'
    query: '''
      AppRequests
      | where AppRoleName =~ "{0}" and OperationName == "deadletter_function"
      | summarize Value = sum(ItemCount)
    '''
    dimensions: []
    aggregation: 'Total'
    operator: 'LessThan'
    threshold: 1
  }
]

var emails = empty(email) ? [] : [email]

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' existing = {
  name: names.workspace
}

resource account 'Microsoft.Storage/storageAccounts@2025-01-01' existing = {
  name: names.storageAccount
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-01-01' existing = {
  parent: account
  name: 'default'
}

resource actionGroup 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: names.actionGroup
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'pushgrid'
    enabled: true
    emailReceivers: map(emails, address => {
      name: 'operator'
      emailAddress: address
      useCommonAlertSchema: true
    })
  }
}

resource logAlerts 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for rule in logRules: {
    name: rule.name
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: rule.name
      description: rule.description
      severity: rule.severity
      enabled: true
      scopes: [workspace.id]
      evaluationFrequency: 'PT15M'
      windowSize: rule.window
      criteria: {
        allOf: [
          {
            query: format(rule.query, names.app)
            metricMeasureColumn: 'Value'
            timeAggregation: rule.aggregation
            // Each value is an alert of its own, whose mail names it.
            dimensions: map(rule.dimensions, name => {
              name: name
              operator: 'Include'
              values: ['*']
            })
            operator: rule.operator
            threshold: rule.threshold
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      autoMitigate: true
      // The tables exist only after the first line of the app has arrived.
      skipQueryValidation: true
      actions: {
        actionGroups: [actionGroup.id]
      }
    }
  }
]

// A backstop that works even when the app writes nothing: hourly, and for all queues of the account together.
resource backlogAlert 'Microsoft.Insights/metricAlerts@2018-03-01' = {
  name: 'pushgrid-queue-backlog'
  location: 'global'
  tags: tags
  properties: {
    description: 'Too many messages wait in the queues of the account.'
    severity: 2
    enabled: true
    scopes: [queueService.id]
    evaluationFrequency: 'PT1H'
    windowSize: 'PT1H'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          name: 'backlog'
          criterionType: 'StaticThresholdCriterion'
          metricNamespace: 'Microsoft.Storage/storageAccounts/queueServices'
          metricName: 'QueueMessageCount'
          timeAggregation: 'Average'
          operator: 'GreaterThan'
          threshold: limits.queuedMessages
        }
      ]
    }
    autoMitigate: true
    actions: [
      {
        actionGroupId: actionGroup.id
      }
    ]
  }
}

resource monthlyBudget 'Microsoft.Consumption/budgets@2024-08-01' = if (budget.amount > 0 && !empty(budget.startDate)) {
  name: 'pushgrid-monthly'
  properties: {
    category: 'Cost'
    amount: budget.amount
    timeGrain: 'Monthly'
    timePeriod: {
      startDate: budget.startDate
    }
    notifications: {
      actualAbove80Percent: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 80
        thresholdType: 'Actual'
        contactEmails: emails
        contactGroups: [actionGroup.id]
      }
    }
  }
}
