#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The finder of guards, on source made for it: it finds each way in which a refusal can
be written, and complains of each that it cannot tie to a condition."""

import sys
import tempfile
from pathlib import Path

import guards
import run

FOUND = r"""
// return Error(Code::corrupt, "in a comment");
Status one(int a, int b) {
  if (a < 0 || (b > 1 && a)) return Error(Code::corrupt, "a || b // \" (");
  if (auto status = two(a); !status) return std::move(status).error();
  if (auto error = three(a).get(b)) return bad("declared").found(a);
  WEIG_TRY(two(b));
  for (int i = 0; i < a; ++i)
    if (i == b) {
      const char* word = "prepared";
      return bad(word);
    }
  if (a == 7) {
    b = 0;
  } else if (b == 8) {
    return Error(Code::limit, "else if");
  }
  const auto inner = [&](int c) -> Status {
    if (c == 9) return {};
    return bad("always");
  };
  WEIG_TRY(inner(a));
  return two(a);
}
Error bad(const char* what) { return Error(Code::corrupt, what); }
Rule four(int a) {
  if (a == 3) return Rule::pad;
  return Rule::none;
}
Result<int> five(int a) {
  if (a == 1) return 2;
  return Error(Code::corrupt, "nothing else to return");
}
"""
EXPECTED = [
    ("refusal", "one", "a < 0"),
    ("refusal", "one", "(b > 1 && a)"),
    ("pass", "one", "auto status = two(a); !status"),
    ("refusal", "one", "auto error = three(a).get(b)"),
    ("pass", "one", "two(b)"),
    ("refusal", "one", "i == b"),
    ("refusal", "one", "b == 8"),
    ("refusal", "inner", "always"),
    ("pass", "one", "inner(a)"),
    ("pass", "one", "two(a)"),
    ("refusal", "four", "a == 3"),
    ("refusal", "five", "always"),
]
EDITED = [
    "((a < 0) && kept(1)) || (((b > 1 && a)) && kept(2))",
    "if (auto status = two(a); ((!status) && kept(3)))",
    "if (auto error = three(a).get(b); error && kept(4))",
    "WEIG_TRY(kept_of(5, two(b)));",
    'if (kept(8)) { return bad("always"); } return {};',
    "WEIG_TRY(kept_of(9, inner(a)));",
    'return kept_error(12, Error(Code::corrupt, "nothing else to return"));',
]
# Refusals that no condition can be found for, and answers nobody knows about.
PUZZLES = {
    "Status f() {\n  Error kept = Error(Code::corrupt, 1);\n  return {};\n}\n": "tied",
    "Rule g(int a) {\n  const Rule rule = Rule::pad;\n  return rule;\n}\n": "tied",
    "bool is_sound(int a) {\n  return a > 1;\n}\n": "is_sound a check",
    "void h(Status& s) {\n  s = bad(2);\n}\nError bad(int);\n"
    "Error bad(int a) {\n  return Error(Code::io, a);\n}\n": "tied",
}


def find(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.cc"
        path.write_text(text)
        finder = guards.Finder(Path(folder), [Path("a.cc")])
        return finder.find(), [p for p in finder.problems if "no function" not in p]


def main():
    failures = []
    found, problems = find(FOUND)
    got = [(guard.kind, guard.function, guard.condition) for guard in found]
    if got != EXPECTED:
        failures.append(f"found {got}")
    if problems:
        failures.append(f"complains of {problems}")
    edited = run.edit(FOUND, list(enumerate(found, 1))).replace("weig_mutation::", "")
    failures += [f"no {text}\n{edited}" for text in EDITED if text not in edited]
    for text, word in PUZZLES.items():
        _, problems = find(text)
        if not any(word in problem for problem in problems):
            failures.append(f"says {problems} of {text}")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
