"""Azure Monitor's log tables with their columns, and query keywords."""

from __future__ import annotations

COLUMNS = {
    "AppTraces": {"Message", "SeverityLevel", "Properties", "Measurements"},
    "AppRequests": {
        "Id", "Source", "Name", "Url", "Success", "ResultCode", "DurationMs", "PerformanceBucket",
        "Properties", "Measurements",
    },
    "AppExceptions": {"ProblemId", "ExceptionType", "OuterMessage", "SeverityLevel", "Properties"},
    "AppDependencies": {
        "Target", "DependencyType", "Name", "Data", "Success", "ResultCode", "DurationMs",
    },
    "AppMetrics": {"Name", "Sum", "Min", "Max", "ItemCount", "Properties"},
    "AppEvents": {"Name", "Properties", "Measurements"},
    "StorageQueueLogs": {"OperationName", "StatusCode", "StatusText", "Uri"},
}  # fmt: skip
"""Columns of the tables that contain an app's logs; those of all tables follow."""

COMMON_COLUMNS = {
    "TimeGenerated", "AppRoleName", "AppRoleInstance", "AppVersion", "OperationName", "OperationId",
    "ItemCount", "_ResourceId", "Type", "TenantId", "SDKVersion", "ClientIP",
}  # fmt: skip
KEYWORDS = frozenset(
    {
        "where", "extend", "project", "summarize", "by", "and", "or", "not", "has", "contains",
        "startswith", "endswith", "in", "between", "asc", "desc", "sort", "order", "top",
        "take", "limit", "count", "distinct", "join", "kind", "on", "union", "let", "render",
        "make_set", "make_list", "true", "false", "bin", "ago", "now", "sum", "max", "min",
        "avg", "dcount", "countif", "sumif", "percentile", "tostring", "toint", "tolong",
        "toreal", "todouble", "tobool", "parse_json", "todynamic", "iff", "case",
        "isempty", "isnotempty", "isnull", "isnotnull", "coalesce", "has_any", "has_cs",
        "hasprefix", "matches", "regex", "extract", "strcat", "tolower", "toupper",
        "datetime_diff", "1d", "1h", "arg_max", "arg_min", "any", "todatetime", "real", "long",
        "int", "string", "dynamic",
    }
)  # fmt: skip
"""Keywords of the query language, and those of its many functions that log alerts use."""
