"""The only exceptions from the rules, each with its reason.

(path pattern as in a shell, rule, reason). An exception that excepts nothing is
an error as long as files match its path, so the table only shrinks.
"""

EXCEPTIONS = (
    ("client/api/cluster.cc", "process-call",
     "the environment variable that names the cluster is part of the API"),
    ("client/core/cluster_core.cc", "process-call",
     "host and process id, once, as this client's name in others' messages"),
    ("client/names/operations.cc", "process-call",
     "new files belong to the calling user, as in any file system"),
    ("tests/fuzz/*_fuzz.cc", "target",
     "compiled by the preset `fuzz` only, which needs clang"),
)
