"""The only exceptions from the rules, each with its reason.

(path pattern as in a shell, rule, reason). An exception that excepts nothing is
an error as long as files match its path, so the table only shrinks.
"""

EXCEPTIONS = (
    # Programs are the edge to the world, and never run in the simulator: the
    # terminal, local files, child processes, signals.
    ("client/cli/*", "file-call", "reads and writes the user's local files"),
    ("client/cli/*", "process-call", "starts one process per rank"),
    ("client/cli/*", "socket-call", "waits on pipes of its rank processes"),
    ("client/cli/*", "clock-call", "progress bars and local time for people"),
    ("server/main/*", "file-call", "cluster.json, before any loop runs"),
    ("server/main/*", "process-call", "names of host and process, signals"),
    ("server/main/*", "random-call", "makes the cluster id at init"),
    # Inside the layers.
    ("client/api/cluster.cc", "process-call",
     "the environment variable that names the cluster is part of the API"),
    ("client/core/cluster_core.cc", "process-call",
     "name and owner of the process, once: defaults of its options"),
)
