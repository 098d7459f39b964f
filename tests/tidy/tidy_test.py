#!/usr/bin/env python3
"""Each rule finds its bad sample, and lets the good one beside it pass."""

import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rules_code  # noqa: E402
import rules_fault_points  # noqa: E402
import rules_layout  # noqa: E402
import tidy  # noqa: E402
from source import Finding, Tree, functions, lambdas  # noqa: E402

HEADER = "// A thing.\n#pragma once\n"
# Words that the rule itself would find, if it read this file.
TODO = "TO" "DO"
FIXME = "FIX" "ME"


def found(rule, path, text):
    """Messages of `rule` for one file, with the lines."""
    return [(f.line, f.message) for f in rule(Tree({path: text}))]


class LayoutRules(unittest.TestCase):

    def test_include_of_a_forbidden_layer_is_found(self):
        for path, included in (
                ("format/a.cc", "io/env.h"),
                ("io/a.h", "server/target/store.h"),
                ("server/a.cc", "client/api/file.h"),
                ("client/a.cc", "server/meta/core.h"),
                ("client/a.cc", "tests/sim/world.h")):
            hits = found(rules_layout.layers, path,
                         f'#include "{included}"\n')
            self.assertEqual(len(hits), 1, path)
            self.assertIn("must not include " + included, hits[0][1])

    def test_include_of_an_allowed_layer_passes(self):
        for path, included in (
                ("io/a.cc", "format/base/ids.h"),
                ("server/a.cc", "io/env.h"),
                ("client/a.cc", "absl/status/status.h"),
                ("tests/a.cc", "server/meta/core.h"),
                ("fuse/a.cc", "client/api/file.h"),
                ("format/a.cc", "format/wire/meta.pb.h")):
            self.assertEqual(
                found(rules_layout.layers, path, f'#include "{included}"\n'),
                [])

    def test_include_that_is_no_path_from_the_top_is_found(self):
        self.assertTrue(
            found(rules_layout.layers, "io/a.cc", '#include "env.h"\n'))

    def test_cycle_of_files_is_found(self):
        tree = Tree({
            "io/a.h": '#include "io/b.h"\n',
            "io/b.h": '#include "io/c.h"\n',
            "io/c.h": '#include "io/a.h"\n',
        })
        messages = [f.message for f in rules_layout.file_cycles(tree)]
        self.assertEqual(
            messages, ["includes io/a.h -> io/b.h -> io/c.h -> io/a.h"])

    def test_files_without_a_cycle_pass(self):
        tree = Tree({
            "io/a.h": '#include "io/b.h"\n#include "io/c.h"\n',
            "io/b.h": '#include "io/c.h"\n',
            "io/c.h": "",
        })
        self.assertEqual(list(rules_layout.file_cycles(tree)), [])

    def test_cycle_of_folders_is_found_without_a_cycle_of_files(self):
        tree = Tree({
            "server/x/a.h": '#include "server/y/b.h"\n',
            "server/y/b.h": "",
            "server/y/c.cc": '#include "server/x/d.h"\n',
            "server/x/d.h": "",
        })
        self.assertEqual(len(list(rules_layout.folder_cycles(tree))), 1)

    def test_limits_and_the_parts_behind_the_api_are_no_cycle(self):
        tree = Tree({
            "server/meta/limits.h": "",
            "server/meta/a.h": '#include "server/meta/kv/b.h"\n',
            "server/meta/kv/b.h": '#include "server/meta/limits.h"\n',
            "client/api/file.h": "",
            "client/api/file.cc": '#include "client/core/core.h"\n',
            "client/core/core.h": '#include "client/api/file.h"\n',
        })
        self.assertEqual(list(rules_layout.folder_cycles(tree)), [])

    def test_limits_that_include_what_needs_them_are_a_cycle(self):
        tree = Tree({
            "server/limits.h": '#include "server/meta/core.h"\n',
            "server/meta/core.h": '#include "server/limits.h"\n',
        })
        self.assertEqual(len(list(rules_layout.folder_cycles(tree))), 1)

    def test_function_over_the_limit_is_found_and_one_at_it_passes(self):
        for head in ("void F(int a) {", "Foo::Foo(int a) : a_(a), b_{1} {",
                     "TEST(Queue, IsFirstInFirstOut) {",
                     "namespace x {\nclass A {\n public:\n  int G() const {",
                     "template <class T>\nauto H(T t) -> int {"):
            tail = "}\n" * (head.count("{") - (1 if "b_{" in head else 0))
            # The lines of the head, from where the function starts.
            own = 2 if "template" in head else 1
            for extra, expected in ((0, 0), (1, 1)):
                body = "  x();\n" * (70 - own - 1 + extra)
                hits = found(rules_layout.lengths, "io/a.cc",
                             head + "\n" + body + tail)
                self.assertEqual(len(hits), expected, (head, hits))

    def test_long_class_and_long_table_are_no_functions(self):
        body = "  int F() { return 1; }\n" * 100
        self.assertEqual(
            found(rules_layout.lengths, "io/a.cc",
                  "class A final : public B {\n" + body + "};\n"), [])
        rows = '    {"a", 1},\n' * 100
        self.assertEqual(
            found(rules_layout.lengths, "io/a.cc",
                  "const Row kRows[] = {\n" + rows + "};\n"), [])

    def test_file_over_the_limit_is_found(self):
        self.assertEqual(
            len(found(rules_layout.lengths, "io/a.cc", "int a;\n" * 801)), 1)
        self.assertEqual(
            found(rules_layout.lengths, "io/a.cc", "int a;\n" * 800), [])

    def test_line_over_80_columns_is_found_by_characters_not_bytes(self):
        self.assertEqual(
            len(found(rules_layout.width, "io/a.cc", "x" * 81 + "\n")), 1)
        self.assertEqual(
            found(rules_layout.width, "io/a.cc", "\u00e9" * 80 + "\n"), [])
        self.assertEqual(
            found(rules_layout.width, "io/a.cc",
                  "// https://" + "x" * 90 + "\n"), [])

    def test_header_without_guard_or_contract_is_found(self):
        self.assertEqual(found(rules_layout.headers, "io/a.h", HEADER), [])
        self.assertIn("pragma", found(rules_layout.headers, "io/a.h",
                                      "// A thing.\n")[0][1])
        self.assertIn("paragraph", found(rules_layout.headers, "io/a.h",
                                         "#pragma once\n")[0][1])

    def test_open_work_without_an_issue_is_found(self):
        for comment in (f"// {TODO}: later", f"// {TODO}(me): later",
                        f"/* {FIXME} */", f"// {FIXME}(#3)"):
            self.assertEqual(
                len(found(rules_layout.open_work, "io/a.cc", comment)), 1,
                comment)
        for text in (f"// {TODO}(#12): later", f'Log("{TODO}");',
                     f"int {TODO}_count;"):
            self.assertEqual(
                found(rules_layout.open_work, "io/a.cc", text), [], text)

    def test_source_that_no_target_compiles_is_found(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "io"))
            for name in ("a.cc", "b.cc"):
                with open(os.path.join(root, "io", name), "w",
                          encoding="utf-8") as file:
                    file.write("int x;\n")
            commands = os.path.join(root, "compile_commands.json")
            with open(commands, "w", encoding="utf-8") as file:
                json.dump([{"directory": os.path.join(root, "build"),
                            "file": "../io/a.cc"}], file)
            hits = list(rules_layout.targets(Tree.read(root), commands, root))
            self.assertEqual([f.path for f in hits], ["io/b.cc"])


class CodeRules(unittest.TestCase):

    def test_banned_calls_outside_io_are_found(self):
        for line in ("int fd = open(path, 0);", "::read(fd, p, n);",
                     "return close(fd);", "if (fsync(fd) != 0) return;",
                     "std::rename(a, b);", "x = socket(1, 2, 3);",
                     "clock_gettime(0, &t);", "auto t = time(nullptr);",
                     "auto n = std::chrono::steady_clock::now();",
                     "absl::Now();", "int r = rand();", "getrandom(p, n, 0);",
                     "std::random_device device;", "std::mt19937_64 r(1);",
                     "std::thread t(F);", "std::ifstream f(path);",
                     "std::filesystem::exists(p);", "auto e = getenv(name);",
                     "std::cout << 1;", "pid_t p = fork();"):
            self.assertEqual(
                len(found(rules_code.banned_calls, "server/a.cc", line)), 1,
                line)
            self.assertEqual(
                found(rules_code.banned_calls, "io/a.cc", line), [], line)
            self.assertEqual(
                found(rules_code.banned_calls, "tests/a.cc", line), [], line)

    def test_methods_and_declarations_of_these_names_pass(self):
        for line in ("file->read(p, n);", "file.close();", "Files::open(p);",
                     "Socket* socket() const;", "uint64_t time() const {",
                     "void close();", "std::move(x);",
                     "co_await env->Sleep(1);",
                     "reader(p);", "// open(path)", 'Log("open(path)");',
                     "std::filesystem::path p;",
                     "n = std::thread::hardware_concurrency();",
                     "std::vector<int> poll();", "int sleep_count(3);"):
            self.assertEqual(
                found(rules_code.banned_calls, "server/a.cc", line), [], line)

    def test_bare_new_and_delete_are_found(self):
        for line in ("auto* p = new Foo(1);", "p = new (x) Foo;",
                     "delete p;", "delete[] p;", "void* p = malloc(8);",
                     "free(p);", "return new char[8];"):
            self.assertEqual(
                len(found(rules_code.ownership, "io/a.cc", line)), 1, line)

    def test_owned_new_and_deleted_functions_pass(self):
        for line in ("auto p = absl::WrapUnique(new Foo(1));",
                     "std::unique_ptr<Foo> p(new Foo(1));",
                     "return std::unique_ptr<Foo>(new Foo(1));",
                     "Foo(const Foo&) = delete;", "int new_size = 1;",
                     "void* operator new(size_t n);", "// a new thing",
                     "void operator delete(void* p);", "list.free();"):
            self.assertEqual(
                found(rules_code.ownership, "io/a.cc", line), [], line)

    def test_capturing_lambda_coroutine_is_found(self):
        for text in ("auto f = [this]() -> Task<int> { co_return x_; };",
                     "Spawn([&] { co_await Sleep(); });",
                     "Spawn([x = 1](int a) mutable -> Task<> {\n"
                     "  co_await F(x);\n});"):
            self.assertEqual(
                len(found(rules_code.lambda_coroutines, "io/a.cc", text)), 1,
                text)

    def test_other_lambdas_pass(self):
        for text in ("Spawn([](int a) -> Task<int> { co_return a; });",
                     "auto f = [this] { return x_; };",
                     "Task<> F() { co_await G([&] { return 1; }); }",
                     "Task<> F(int* a) { a[i] = 1; { co_return; } }",
                     "auto f = [&] { return [](int a) -> Task<int> "
                     "{ co_return a; }; };",
                     "[[nodiscard]] Task<> F() { co_return; }"):
            self.assertEqual(
                found(rules_code.lambda_coroutines, "io/a.cc", text), [],
                text)

    def test_names_of_tests_that_are_no_sentences_are_found(self):
        for name in ("TEST(Queue, Basic)", "TEST_F(Queue, Works)",
                     "TEST(Queue, BasicTest)", "TEST(Queue, Trailer2)",
                     "TEST_P(Queue, Push)", "TEST(Queue, SimpleWorks3)",
                     "TYPED_TEST(Queue, Sanity)", "TEST(Queue, PushPop2)",
                     "TEST(Queue, DISABLED_FullQueueRefusesPush)",
                     "TEST(DISABLED_Queue, FullQueueRefusesPush)"):
            self.assertEqual(
                len(found(rules_code.test_names, "tests/a.cc", name + " {}")),
                1, name)

    def test_sentences_pass(self):
        for name in ("TEST(Queue, FullQueueRefusesPush)",
                     "TEST(Queue, RoundTrip)", "TEST(Queue, CorruptMagic)",
                     "TEST(Queue,\n     ALineOf80CharactersIsKept)",
                     "TEST(Queue, OffsetsDoNotWrapAt32)"):
            self.assertEqual(
                found(rules_code.test_names, "tests/a.cc", name + " {}"), [],
                name)


class Exceptions(unittest.TestCase):

    TREE = Tree({"io/a.cc": "int x;\n"})
    HIT = Finding("io/a.cc", 1, "width", "too wide")

    def test_excepted_finding_is_dropped_and_others_are_kept(self):
        other = Finding("io/a.cc", 2, "layer", "no")
        kept = tidy.without_exceptions(
            self.TREE, [self.HIT, other], [("io/*.cc", "width", "why")],
            {"width"})
        self.assertEqual(kept, [other])

    def test_exception_that_excepts_nothing_is_a_finding(self):
        for rules, expected in (({"width"}, 1), (set(), 0)):
            kept = tidy.without_exceptions(
                self.TREE, [], [("io/a.cc", "width", "why")], rules)
            self.assertEqual(len(kept), expected)

    def test_exception_for_files_that_are_not_there_is_idle_but_fine(self):
        self.assertEqual(
            tidy.without_exceptions(self.TREE, [],
                                    [("gone/a.cc", "width", "why")],
                                    {"width"}), [])


class Text(unittest.TestCase):

    def test_strings_comments_and_directives_hide_braces(self):
        code = Tree({"io/a.cc": (
            '#define A { \\\n  {\n'
            'const char* k = "{"; // {\n'
            "char c = '{'; int n = 1'000'000; /* { */\n"
            'auto r = R"({{)";\n'
            'int F() {\n}\n')}).code("io/a.cc")
        spans = [code.count("\n", 0, first) + 1
                 for first, _ in functions(code)]
        self.assertEqual(spans, [6])

    def test_lambdas_are_told_from_subscripts_and_attributes(self):
        code = "[[likely]] a[i]; f([x](int y) { g(); }); delete[] p;"
        self.assertEqual([c for _, c, _, _ in lambdas(code)], ["x"])


class FaultPointRules(unittest.TestCase):
    RULE = staticmethod(rules_fault_points.fault_points)
    FAULT = "CAIRN_" "FAULT_POINT"
    SOMETIMES = "CAIRN_" "SOMETIMES"

    def test_point_of_its_layer_passes(self):
        for path, name in (("server/target/a.cc", "target.put.full"),
                           ("server/meta/kv/a.cc", "meta.mark.one_torn"),
                           ("client/blob/a.cc", "client.put.again")):
            self.assertEqual(
                found(self.RULE, path, f'if ({self.FAULT}("{name}")) x();\n'),
                [])

    def test_point_in_a_header_or_in_tests_is_found(self):
        for path in ("server/meta/a.h", "tests/a.cc", "io/a.cc"):
            hits = found(self.RULE, path, f'{self.FAULT}("meta.a.b")\n')
            self.assertEqual(len(hits), 1, path)
            self.assertIn("is for .cc files", hits[0][1])

    def test_name_of_another_layer_or_form_is_found(self):
        for name in ("target.a.b", "meta.a", "meta.A.b", "meta.a.b.c", ""):
            hits = found(self.RULE, "server/meta/a.cc",
                         f'\n{self.SOMETIMES}(a && f(b), "{name}");\n')
            self.assertEqual([line for line, _ in hits], [2], name)

    def test_name_that_is_no_literal_is_found(self):
        hits = found(self.RULE, "server/meta/a.cc",
                     f"{self.FAULT}(kName)\n")
        self.assertEqual(len(hits), 1)

    def test_second_use_of_a_name_is_found(self):
        text = f'{self.FAULT}("meta.a.b");\n{self.SOMETIMES}(x, "meta.a.b");\n'
        hits = found(self.RULE, "server/meta/a.cc", text)
        self.assertEqual([line for line, _ in hits], [2])
        self.assertIn("already", hits[0][1])

    def test_parentheses_and_strings_of_a_condition_are_skipped(self):
        text = f'{self.SOMETIMES}(f(")") == "(", "meta.a.b");\n'
        self.assertEqual(found(self.RULE, "server/meta/a.cc", text), [])


if __name__ == "__main__":
    unittest.main()
