"""Rules about code: banned calls, ownership, coroutines, names of tests."""

import re

from source import Finding, lambdas, line_of

# Production code outside io/ reaches the world through io::Env only. Tests and
# benchmarks may call the kernel: they make the trouble.
PURE = ("format", "server", "client")

# (rule, free functions, what to use instead)
BANNED_CALLS = (
    ("file-call",
     "open openat creat read pread preadv readv write pwrite pwritev writev "
     "close fsync fdatasync sync_file_range ftruncate truncate fallocate "
     "posix_fallocate lseek unlink unlinkat rename renameat renameat2 mkdir "
     "mkdirat rmdir stat fstat lstat fstatat statx statvfs fstatvfs opendir "
     "readdir closedir flock fcntl mmap munmap ioctl dup dup2 pipe pipe2 "
     "fopen fclose fread fwrite mkstemp mkdtemp realpath readlink symlink "
     "link access sendfile splice copy_file_range",
     "io::Env's files"),
    ("socket-call",
     "socket socketpair bind listen accept accept4 connect send sendto sendmsg "
     "recv recvfrom recvmsg setsockopt getsockopt shutdown getaddrinfo poll "
     "ppoll select epoll_create1 epoll_ctl epoll_wait eventfd "
     "io_uring_queue_init io_uring_submit",
     "io::Env's sockets"),
    ("clock-call",
     "clock_gettime gettimeofday time nanosleep clock_nanosleep usleep sleep "
     "localtime localtime_r timerfd_create",
     "io::Env's clock"),
    ("random-call",
     "rand srand srandom drand48 lrand48 getrandom getentropy arc4random",
     "io::Env's random numbers"),
    ("process-call",
     "fork vfork execv execve execvp execvpe posix_spawn posix_spawnp system "
     "popen waitpid wait4 kill raise signal sigaction sigprocmask getpid "
     "gethostname getuid geteuid "
     "pthread_create getenv secure_getenv setenv _exit",
     "a value that main() passes"),
)

# (rule, pattern, what to use instead)
BANNED_NAMES = (
    ("clock-call", r"std::chrono::\w+_clock\b", "io::Env's clock"),
    ("clock-call", r"std::this_thread::sleep\w*", "io::Env's clock"),
    ("clock-call", r"\babsl::(?:Now|SleepFor|GetCurrentTimeNanos)\b",
     "io::Env's clock"),
    ("random-call", r"\bstd::(?:random_device|rand|mt19937(?:_64)?)\b",
     "io::Env's random numbers"),
    ("random-call", r"\babsl::(?:BitGen|InsecureBitGen)\b",
     "io::Env's random numbers"),
    ("thread", r"\bstd::(?:jthread|thread|async)\b"
     r"(?!::hardware_concurrency)", "io::LoopThread"),
    ("file-call", r"\bstd::(?:[io]?fstream\b|filesystem::(?!path\b))",
     "io::Env's files"),
    ("file-call", r"\bstd::c(?:out|err|in)\b", "a log or a returned status"),
    ("process-call", r"\bstd::(?:getenv|system|signal|raise)\b",
     "a value that main() passes"),
)


def _is_call(code, at):
    """False for declarations and methods whose name starts at `at`."""
    before = code[:at].rstrip()
    if before.endswith("::"):
        # ::read( is the system's; Foo::read( and std::move( are not.
        return not re.search(r"[\w>]::$", before) or before.endswith("std::")
    if before.endswith((".", "->")):
        return False
    word = re.search(r"(\w+)$", before)
    if word:
        return word[1] in ("return", "co_return", "co_await", "else", "do")
    return not before.endswith(("*", "&", ">", "~"))


def banned_calls(tree):
    patterns = [
        (rule, re.compile(r"(?<!\w)(%s)\s*\(" % names.replace(" ", "|")), use)
        for rule, names, use in BANNED_CALLS]
    for path in tree.paths(".h", ".cc", under=PURE):
        code = tree.code(path)
        for rule, pattern, use in patterns:
            for match in pattern.finditer(code):
                if _is_call(code, match.start()):
                    yield Finding(path, line_of(code, match.start()), rule,
                                  f"{match[1]}(): use {use}")
        for rule, pattern, use in BANNED_NAMES:
            for match in re.finditer(pattern, code):
                yield Finding(path, line_of(code, match.start()), rule,
                              f"{match[0]}: use {use}")


_NEW = re.compile(r"(?<![\w.])(?<!operator )new\b(?=\s*[\w:(\[])")
_DELETE = re.compile(r"(?<![\w.])(?<!operator )(?<!= )(?<!=)delete\b")
_MALLOC = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|aligned_alloc|"
                     r"posix_memalign|free)\s*\(")


def ownership(tree):
    for path in tree.paths(".h", ".cc"):
        code = tree.code(path)
        for match in _NEW.finditer(code):
            # The only way to a private constructor: owned at once.
            owner = code[:match.start()].rstrip()
            if re.search(r"(?:absl::WrapUnique|unique_ptr<[^;{}]*>"
                         r"(?:\s*\w+)?)\s*\($", owner):
                continue
            yield Finding(path, line_of(code, match.start()), "ownership",
                          "new: use std::make_unique")
        for pattern in (_DELETE, _MALLOC):
            for match in pattern.finditer(code):
                yield Finding(path, line_of(code, match.start()), "ownership",
                              f"{match[0]}: use an owner that frees it")


def lambda_coroutines(tree):
    """A lambda's captures die with it, which is at its first suspension."""
    for path in tree.paths(".h", ".cc"):
        code = tree.code(path)
        found = list(lambdas(code))
        for at, captures, start, end in found:
            body = code[start:end]
            for _, _, inner_start, inner_end in found:
                if start < inner_start and inner_end <= end:
                    body = (body[:inner_start - start] +
                            " " * (inner_end - inner_start) +
                            body[inner_end - start:])
            if captures and re.search(r"\bco_(?:await|return|yield)\b", body):
                yield Finding(path, line_of(code, at), "lambda-coroutine",
                              f"a coroutine that captures [{captures}]: pass "
                              "parameters to a function")


_TEST = re.compile(
    r"\bTEST(?:_F|_P)?\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)|\bTYPED_TEST\s*"
    r"\(\s*(\w+)\s*,\s*(\w+)\s*\)")
_EMPTY_WORDS = {"basic", "basics", "works", "simple", "test", "tests", "sanity",
                "smoke", "trivial", "ok", "success", "failure", "misc", "it",
                "case", "usage", "example", "normal"}


def _words(name):
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+|\d+", name)


def test_names(tree):
    for path in tree.paths(".cc", under=("tests",)):
        code = tree.code(path)
        for match in _TEST.finditer(code):
            suite, name = (g for g in match.groups() if g)
            line = line_of(code, match.start())
            if suite.startswith("DISABLED_") or name.startswith("DISABLED_"):
                yield Finding(path, line, "test-name",
                              f"{suite}.{name} is disabled: mend or remove it")
                continue
            words = _words(name)
            meaning = [w for w in words
                       if w.lower() not in _EMPTY_WORDS and not w.isdigit()]
            if len(meaning) < 2:
                yield Finding(path, line, "test-name",
                              f"{suite}.{name} is no sentence of a state and "
                              "its outcome")
            elif words[-1].isdigit() and len(words) < 4:
                yield Finding(path, line, "test-name",
                              f"{suite}.{name} is numbered")
