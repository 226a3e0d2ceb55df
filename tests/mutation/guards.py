# SPDX-License-Identifier: Apache-2.0
"""Finds every guard of the reader: each condition whose truth refuses a file.

Nothing is looked for by a guard's own looks. Every place that can make or pass on a
refusal (an Error, a function that returns one, a Rule) must lie in a `return`, or in
an argument of WEIG_TRY, that this module has tied to a condition; every function that
answers with a truth or with nothing must be known as a check or as none. What is left
over is a problem, not silence.

A guard is one operand of a condition's top-level ||, since each refuses on its own:

  refusal  leads to an Error or a Rule of its own: these are what documents list
  other    the same, where no file is wrong: a caller's question, a writer's input
  test     a part of a function that checks ask, such as fits()
  pass     hands a refusal up: whether the check is called and believed
"""

import re
from dataclasses import dataclass
from pathlib import Path

from cpp_source import Puzzled, Source

FOLDERS = ("src/core", "src/formats")

# Functions that checks ask, and how each says no. "&&": each operand of what it returns
# is a guard; "value": what it returns as a whole; else the text behind `return` that
# says no.
TESTS = {
    "fits": "&&",
    "inside": "&&",
    "all_zero": "false",
    "is_utf8": "value",
    "is_utf8_slow": "false",
    "decode": "0",
    "ascii_name_length": "kNotPlain",
    "group_name": "std::nullopt",
    "KeySet::add": "false",
    "load_varint": "std::nullopt",
    "is_alias": "&&",
    "leads_home": "value",
    "Groups::operator[]": "{}",
    "hex_at": "std::nullopt",
    "last_element": "false",
    "is_harmless": "&&",
}

# Functions that answer with a truth, a number or nothing, and refuse nothing.
NO_TESTS = {
    "is_aligned": "arithmetic; its callers are guards",
    "operator()": "compares shapes and names in containers",
    "SeededHash::operator()": "a hash for containers",
    "before": "compares for a search",
    "is_digit": "a class of characters",
    "unsafe_on_terminal": "how text is shown",
    "digits_end": "natural order of names",
    "starts_with_ignoring_case": "what a file looks like",
    "goes_on": "whether the caller wants to stop",
    "text_lookalike": "makes the refusals that it returns; they are counted as such",
    "safetensors_dtype_name": "a name for writing",
    "safetensors_dtype_named": "a name's type; its caller is a guard",
    "group_name_length": "the layout that a writer chooses",
    "find_minimal": "a search",
    "ggml_type_number": "a number for writing",
    "ggml_type_numbered": "a number's type; its caller is a guard",
    "whole_number": "a value that was read; its callers are guards",
    "looks_like_onnx": "what a file looks like",
    "is_text": "what a file looks like",
    "begins_graph": "what a file looks like",
    "OnnxMetadata::text": "what was gathered",
    "empty": "a container's",
    "NumberFields::is_as_it_is": "which of two ways gives the same",
    "base": "where a stack begins",
    "boolean": "what was read",
    "contains": "a search",
    "is_one_of": "a search",
    "is_main_pickle": "what an archive is",
    "is_torch_archive": "what an archive is",
    "is_torch_stream": "what a file looks like",
    "is_plain_tensor_class": "what a name means",
    "is_untyped_storage": "what a name means",
    "is_storage_module": "what a name means",
    "is_row_major": "which of two ways gives the same",
    "TorchPlaces::same_bytes": "which tensors share their bytes",
    "key_of": "what a storage is called",
    "is_scalar": "what a value is",
    "TorchWalk::may_hold_wanted": "what the caller selects",
    "is_wanted": "what the caller selects",
    "TorchWalk::key_text": "what a key is called; its callers are guards",
    "next_is": "what comes next in a header",
    "npy_dtype_name": "a name for writing",
    "is_npz": "what an archive is",
    "is_large": "how large a field a number needs",
    "size": "how many there are",
}
_ERRORS = ("Error", "std::optional<Error>")
_ANSWERS = re.compile(r"^(bool|std::optional<.*>|std::size_t)$")

# Functions that return a Status and refuse with the words that they are given.
REFUSE_WITH_WORDS = ("lenient", "exactly", "at_least")


# Functions that refuse what callers ask or give, or what is no weights file: no rules
# of a format, and no rows in its document.
OTHERS = {
    "checked_size",
    "table_order",
    "all_sections",
    "Plan::make",
    "build_front",
    "build_index",
    "check_front",
    "sniff",
    "sniff_zip",
    "text_lookalike",
    "Tensor::check_typed",
    "View::operator[]",
    "View::tensor",
    "View::digest",
    "View::quantization",
}


@dataclass
class Guard:
    kind: str  # refusal, other, test, pass
    path: str
    line: int
    function: str
    condition: str  # as it is written
    says: str  # the first words of the refusal
    # What the scratch copy puts around text [begin, end): (begin, end, prefix, suffix).
    # {n} is the guard's number, {on} whether it is there.
    edit: tuple = ()

    @property
    def key(self):
        return f"{self.path}: {self.function}: {self.condition}"


class Finder:
    def __init__(self, root, paths):
        self.sources = [Source(str(path), (root / path).read_text()) for path in paths]
        self.guards, self.problems = [], []
        self.known = set()
        self.askers = {
            f.name
            for source in self.sources
            for f in source.functions
            if f.returns == "std::optional<Error>"
        }
        self.makers = {"Error"} | {
            f.name.rpartition("::")[2]
            for source in self.sources
            for f in source.functions
            if f.returns in _ERRORS
        }

    def find(self):
        for source in self.sources:
            tied = set()
            for at, token in enumerate(source.tokens):
                if token.text == "return" and token.kind == "name":
                    self._return(source, at, tied)
                elif token.text == "WEIG_TRY" and source[at + 1] == "(":
                    self._try(source, at, tied)
            self._nothing_left(source, tied)
        for name in sorted((set(TESTS) | OTHERS) - self.known):
            self.problems.append(f"no function {name} any more, or without a guard")
        seen = {}
        for guard in self.guards:
            seen.setdefault(guard.key, []).append(guard)
        for same in seen.values():
            for i, guard in enumerate(same[1:], 2):
                guard.condition += f" ({i})"
        return self.guards

    # Every `return` is a refusal, hands one up, says no for a test, or is no guard.
    def _return(self, source, at, tied):
        end = source.statement_end(at) - 1
        function = source.function_of(at)
        name = function.name if function else ""
        makes = self._makes(source, at + 1, end)
        maker = [f.returns for f in source.functions_of(at) if f.returns in _ERRORS]
        test = TESTS.get(name)
        if test:
            self.known.add(name)
        if maker:
            tied.update(range(at, end))  # what its callers refuse with
            if maker[-1] == "std::optional<Error>" and makes:
                self._tie(source, at, end, "refusal")
        elif makes:
            tied.update(range(at, end))
            only_words = source[at + 1] == "refusal" or name in REFUSE_WITH_WORDS
            self._tie(source, at, end, "pass" if only_words else "refusal")
        elif self._passes(source, at + 1, end):
            tied.update(range(at, end))
            self._tie(source, at, end, "pass")
        elif test == "&&":
            for first, last in source.split(at + 1, end, "&&"):
                self._add("test", source, first, last, "", "((", ") || !{on})")
        elif test and "?" in (source[i] for i in range(at, end)):
            question = next(i for i in range(at, end) if source[i] == "?")
            for first, last in source.split(at + 1, question, "||"):
                self._add("test", source, first, last, "", "((", ") && {on})")
        elif test and source.spelled(at + 1, end) == test:
            if not self._tie(source, at, end, "test", unconditional="skip"):
                self.known.add(name)
        elif test in ("value", "false"):
            if source.spelled(at + 1, end) not in ("true", "is_utf8_slow(text)"):
                self._add("test", source, at + 1, end, "", "((", ") || !{on})")
        elif self._calls_a_check(source, function, at + 1, end):
            kind = "refusal" if source[at + 1] in REFUSE_WITH_WORDS else "pass"
            self._add(
                kind,
                source,
                at + 1,
                end,
                self._words(source, at + 1, end),
                "weig_mutation::kept_of({n}, ",
                ")",
            )

    def _try(self, source, at, tied):
        last = source.partner[at + 1]
        tied.update(range(at, last))
        kind = "refusal" if source[at + 2] in REFUSE_WITH_WORDS else "pass"
        if any(source[i] == "return" for i in range(at, last)):  # a lambda within
            tied.difference_update(range(at, last))
        self._add(
            kind,
            source,
            at + 2,
            last,
            self._words(source, at + 2, last),
            "weig_mutation::kept_of({n}, ",
            ")",
        )

    def _makes(self, source, first, last):
        """Whether an expression makes a refusal of its own."""
        if source[first] in self.makers and source[first + 1] in ("(", "{"):
            return True
        spelled = source.spelled(first, last)
        return bool(re.search(r"\bRule::(?!none\b)", spelled))

    def _passes(self, source, first, last):
        spelled = source.spelled(first, last)
        return bool(
            re.search(r"\.error\(\)(\.tensor\(\w+\))?$|^\*std::move\(error\)$|^implied\.rule$", spelled)
            or spelled in ("status", "*error")
        )

    def _calls_a_check(self, source, function, first, last):
        """return CHECK(...) in a function that returns a Status."""
        return (
            function
            and function.returns == "Status"
            and source.tokens[first].kind == "name"
            and source[last - 1] == ")"
            and source[first] != "view"
        )

    def _tie(self, source, at, end, kind, unconditional="mutate"):
        """Ties a `return` to the condition that leads to it."""
        words = self._words(source, at, end)
        branch = at - 1
        if source[branch] == "{":
            branch -= 1
        elif source[branch] in (";", "}"):  # not the first statement of its block
            opened = self._block_of(source, at)
            if self._leads_here(source, opened, at):
                branch = opened - 1
        if source[branch] == ")" and source[source.partner[branch] - 1] == "if":
            return self._condition(source, source.partner[branch], kind, words)
        if unconditional == "skip":
            return False
        function = source.function_of(at)
        if function.returns in ("Status", ""):
            self._add(
                kind,
                source,
                at,
                end + 1,
                words,
                "if ({on}) {{ ",
                " }} return {{}};",
                condition="always",
            )
        else:
            self._add(
                kind,
                source,
                at + 1,
                end,
                words,
                "weig_mutation::kept_error({n}, ",
                ")",
                condition="always",
            )
        return True

    def _block_of(self, source, at):
        depth = at - 1
        while source[depth] != "{":
            depth = source.partner[depth] - 1 if source[depth] in ")}]" else depth - 1
        return depth

    def _leads_here(self, source, opened, at):
        """Whether all of a branch before this `return` only prepares its words."""
        first = source.statements(opened)
        return (
            source[opened - 1] == ")"
            and first[-1] == at
            and all(source[s] in ("const", "auto", "std") for s in first[:-1])
        )

    def _condition(self, source, opened, kind, words):
        """Adds the operands of `if (...)`."""
        closed = source.partner[opened]
        parts = source.split(opened + 1, closed, ";")
        if len(parts) == 1 and self._declares(source, *parts[0]):
            # if (auto error = ...): the condition is the variable.
            first, last = parts[0]
            name = source[next(i for i in range(first, last) if source[i] == "=") - 1]
            self._add(kind, source, first, last, words, "", f"; {name} && {{on}}")
            return True
        first, last = parts[-1]
        shown = source.spelled(opened + 1, closed) if len(parts) > 1 else None
        operands = source.split(first, last, "||")
        for one in operands:
            condition = shown if len(operands) == 1 else None
            self._add(kind, source, *one, words, "((", ") && {on})", condition)
        return True

    @staticmethod
    def _declares(source, first, last):
        return any(source[i] == "=" for i in range(first, last)) and source[first] in (
            "auto",
            "const",
        )

    @staticmethod
    def _words(source, first, last):
        texts = [t.text for t in source.tokens[first:last] if t.kind == "text"]
        rules = re.findall(r"\bRule::(\w+)", source.spelled(first, last))
        return rules[-1] if rules else " ".join(t.strip('"') for t in texts[:1])

    def _add(self, kind, source, first, last, says, prefix, suffix, condition=None):
        function = source.function_of(first)
        name = function.name if function else ""
        if kind == "refusal" and name in OTHERS:
            kind = "other"
            self.known.add(name)
        shown = condition or source.spelled(first, last)
        guard = Guard(kind, source.path, source.line(first), name, shown, says)
        begin, end = source.tokens[first].begin, source.tokens[last - 1].end
        guard.edit = (begin, end, prefix, suffix)
        self.guards.append(guard)

    def _nothing_left(self, source, tied):
        for at, token in enumerate(source.tokens):
            if token.kind != "name" or at in tied:
                continue
            where = f"{source.path}:{source.line(at)}"
            makes = token.text in self.makers and source[at + 1] in ("(", "{")
            # text_lookalike() gives a refusal or none: `if` asks which.
            makes = makes and token.text not in self.askers
            defines = source.tokens[at - 1].kind == "name" or source[at - 1] in (
                "::",
                ">",
                "&",
            )
            if makes and not defines:
                self.problems.append(f"{where}: {token.text} is tied to no guard")
            if token.text == "Rule" and source[at + 1] == "::":
                if source[at + 2] != "none" and source[at - 1] != "case":
                    self.problems.append(f"{where}: a Rule is tied to no guard")
        for function in source.functions:
            if _ANSWERS.match(function.returns):
                name = function.name
                if name not in TESTS and name not in NO_TESTS:
                    where = f"{source.path}:{source.line(function.first)}"
                    self.problems.append(f"{where}: is {name} a check?")


def sources_of(root):
    return sorted(
        path.relative_to(root)
        for folder in FOLDERS
        for path in (root / folder).iterdir()
        if path.suffix in (".h", ".cc")
    )


def find(root):
    """(guards, problems) of the tree at `root`."""
    root = Path(root)
    try:
        finder = Finder(root, sources_of(root))
        return finder.find(), finder.problems
    except Puzzled as puzzled:
        return [], [str(puzzled)]
