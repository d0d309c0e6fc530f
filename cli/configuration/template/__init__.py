"""
Reads the topics and event subscriptions of compiled Bicep and ARM templates.

Each module imports only from those before it: `expressions` parses, `values` says what a value is,
`signatures` what an argument may be; `texts`, `arrays`, `numbers`, `dates` and `resource_ids` are
tables of functions, `functions` joins them; `scope` evaluates within a `budget`, `scope_functions`
adds what depends on a scope; `declared` knows what a template declares, `template_file` reads it.
"""
