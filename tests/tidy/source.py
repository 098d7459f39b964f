"""The source tree as text, and just enough C++ to check rules on it.

No parser: comments, strings and preprocessor lines are blanked (line numbers
stay), and blocks are found by their braces. What that gets wrong is listed in
tidy_test.py, where it matters.
"""

import dataclasses
import os
import re

LAYERS = ("format", "io", "server", "client", "fuse")
FOLDERS = LAYERS + ("tests", "bench", "tools", "cmake")


@dataclasses.dataclass(frozen=True, order=True)
class Finding:
    path: str
    line: int
    rule: str
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.message}"


class Tree:
    """Paths relative to the project, each with its text."""

    def __init__(self, texts):
        self.texts = dict(sorted(texts.items()))
        self._blank = {}

    @classmethod
    def read(cls, root):
        texts = {}
        for folder in FOLDERS:
            for where, folders, names in os.walk(os.path.join(root, folder)):
                folders[:] = [f for f in folders if f != "__pycache__"]
                for name in names:
                    path = os.path.join(where, name)
                    if is_text(path) and not os.path.islink(path):
                        with open(path, encoding="utf-8") as file:
                            texts[os.path.relpath(path, root)] = file.read()
        return cls(texts)

    def paths(self, *endings, under=FOLDERS):
        return [p for p in self.texts
                if p.endswith(endings) and layer_of(p) in under]

    def code(self, path):
        """The text without comments, strings and preprocessor lines."""
        if path not in self._blank:
            self._blank[path] = blank_code(self.texts[path])
        return self._blank[path]


def is_text(path):
    name = os.path.basename(path)
    return name == "CMakeLists.txt" or name.endswith(
        (".cc", ".h", ".proto", ".py", ".cmake", ".sh"))


def layer_of(path):
    return path.split("/", 1)[0]


def line_of(text, at):
    return text.count("\n", 0, at) + 1


_TOKENS = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<raw>R"(?P<mark>[^(\s]{0,16})\(.*?\)(?P=mark)")
      | (?P<number>\b\d[\w.]*(?:'[\w.]+)*)
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<char>'(?:\\.|[^'\\\n])+')
    """, re.VERBOSE | re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def _spaces(text):
    return re.sub(r"[^\n]", " ", text)


def blank_comments(text):
    """Blanks comments only: for what may stand in strings and directives."""
    return _TOKENS.sub(
        lambda m: _spaces(m[0]) if m["comment"] else m[0], text)


def blank_code(text):
    def blank(match):
        if match["number"]:
            return match[0]
        if match["comment"]:
            return _spaces(match[0])
        # Quotes stay, so that an argument is still there.
        return '"' + _spaces(match[0])[1:-1] + '"'

    return _DIRECTIVE.sub(lambda m: _spaces(m[0]), _TOKENS.sub(blank, text))


def comments(text):
    """Yields (offset, text) of each comment."""
    for match in _TOKENS.finditer(text):
        if match["comment"]:
            yield match.start(), match[0]


def matching(code, at):
    """Where the bracket at `at` closes; the end of the text if nowhere."""
    pairs = {"{": "}", "(": ")", "[": "]"}
    opening, closing = code[at], pairs[code[at]]
    depth = 0
    for i in range(at, len(code)):
        if code[i] == opening:
            depth += 1
        elif code[i] == closing:
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


_CONTAINER = re.compile(
    r"(?:template\s*<.*>\s*)?(?:inline\s+)?"
    r"(?:namespace|class|struct|union|enum|extern)\b[^()]*"
    r"(?:alignas\s*\([^)]*\)[^()]*)?$", re.DOTALL)


_LABEL = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)*")


def functions(code):
    """Yields (first offset, last offset) of each outermost function.

    A block is a function if what stands before it, back to the last `;`, `{` or
    `}`, has a parenthesis and is no class or namespace. Blocks in an
    initialiser list (`: a_{1} {`) belong to the function.
    """
    start = 0  # Of the text before the next block.
    i = 0
    while i < len(code):
        c = code[i]
        if c in ";}":
            start = i + 1
        elif c == "(":
            i = matching(code, i)
        elif c == "{":
            start += _LABEL.match(code[start:i]).end()
            head = code[start:i].strip()
            if _CONTAINER.match(head):
                start = i + 1  # Look inside.
            elif "(" in head:
                end = matching(code, i)
                while re.match(r"\s*[,{]", code[end + 1:end + 200]):
                    end = matching(code, code.index("{", end + 1))
                yield start, end
                i, start = end, end + 1
            else:  # Data.
                i = matching(code, i)
        i += 1


_LAMBDA = re.compile(r"(?<![\w\])\[])\s*\[(?!\[)(?P<capture>[^\[\]]*)\]")


def lambdas(code):
    """Yields (offset, captures, body start, body end) of each lambda."""
    for match in _LAMBDA.finditer(code):
        if re.search(r"\b(?:delete|operator)\s*$", code[:match.start()][-20:]):
            continue
        at = match.end()
        head = re.compile(r"\s*").match(code, at)
        at = head.end()
        if at < len(code) and code[at] == "(":
            at = matching(code, at) + 1
        tail = re.compile(
            r"\s*(?:mutable|noexcept|constexpr|\s)*(?:->[^{;=]*)?\{"
        ).match(code, at)
        if tail:
            body = tail.end() - 1
            yield (code.index("[", match.start()), match["capture"].strip(),
                   body, matching(code, body))
