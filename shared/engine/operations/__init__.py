"""Reports status and metrics to operators, and decides who is one."""
