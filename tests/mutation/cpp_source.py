# SPDX-License-Identifier: Apache-2.0
"""As much of C++ as finding guards needs: tokens, brackets, functions, statements.

Knows nothing of guards. What it cannot make sense of it raises Puzzled for, so that
nothing is passed over in silence.
"""

import bisect
import re
from dataclasses import dataclass, field

_TOKENS = re.compile(
    r"""
      (?P<space>\s+ | //[^\n]* | /\*.*?\*/ | \#(?:[^\n\\]|\\.)*)
    | (?P<text>(?:u8|u|U|L)?R"(?P<mark>[^()\s"]*)\(.*?\)(?P=mark)"
              | (?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+')
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[0-9a-zA-Z_]|\.)*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<sign><<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|<<|[-+*/%&|^<>=!]=|&&|\|\||.)
    """,
    re.X | re.S,
)
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_NOT_FUNCTIONS = {"if", "for", "while", "switch", "catch", "constexpr"}


class Puzzled(Exception):
    """The source is written in a way that this reader does not follow."""


@dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int


@dataclass
class Function:
    name: str
    returns: str  # its type as it stands, without spaces; "" if it is not given
    first: int  # the token of the opening brace
    last: int  # and of the closing one


@dataclass
class Source:
    path: str
    text: str
    tokens: list = field(default_factory=list)
    partner: dict = field(default_factory=dict)  # bracket -> bracket
    functions: list = field(default_factory=list)  # by their first token

    def __post_init__(self):
        self._read_tokens()
        self._match_brackets()
        for at, token in enumerate(self.tokens):
            if token.text == "{" and (function := self._function_at(at)):
                self.functions.append(function)
        self._line_starts = [m.end() for m in re.finditer("\n", self.text)]

    def __getitem__(self, at):
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def line(self, at):
        return bisect.bisect(self._line_starts, self.tokens[at].begin) + 1

    def spelled(self, first, last):
        """Tokens [first, last) as one line."""
        if first >= last:
            return ""
        out, end = "", self.tokens[first].begin
        for token in self.tokens[first:last]:
            out += (" " if token.begin > end else "") + token.text
            end = token.end
        return out

    def functions_of(self, at):
        """The functions that hold a token, the innermost last."""
        return [f for f in self.functions if f.first < at < f.last]

    def function_of(self, at):
        """The innermost of them, or None."""
        inside = self.functions_of(at)
        return inside[-1] if inside else None

    def statement_end(self, first):
        """The token after the statement that starts at `first`."""
        at = first
        if self[at] == "{":
            return self.partner[at] + 1
        if self[at] in ("if", "for", "while", "switch"):
            at += 2 if self[at + 1] == "constexpr" else 1
            if self[at] != "(":
                raise Puzzled(f"{self.path}:{self.line(at)}: no ( here")
            at = self.statement_end(self.partner[at] + 1)
            return self.statement_end(at + 1) if self[at] == "else" else at
        while self[at] != ";":
            if self[at] == "}" or at >= len(self.tokens):
                raise Puzzled(f"{self.path}:{self.line(first)}: no end of statement")
            at = self.partner[at] + 1 if self[at] in _CLOSING else at + 1
        return at + 1

    def statements(self, first):
        """The first tokens of the statements that a branch consists of."""
        if self[first] != "{":
            return [first]
        out, at = [], first + 1
        while at < self.partner[first]:
            out.append(at)
            at = self.statement_end(at)
        return out

    def split(self, first, last, sign):
        """Tokens [first, last) as ranges between `sign` outside of brackets."""
        out, begin, at = [], first, first
        while at < last:
            if self[at] == sign:
                out.append((begin, at))
                begin = at + 1
            at = self.partner[at] + 1 if self[at] in _CLOSING else at + 1
        return out + [(begin, last)]

    def _read_tokens(self):
        for match in _TOKENS.finditer(self.text):
            if match.lastgroup == "space" or match["space"]:
                continue
            kind = next(k for k in ("text", "number", "name", "sign") if match[k])
            self.tokens.append(Token(kind, match[0], match.start(), match.end()))

    def _match_brackets(self):
        open_ones = []
        for at, token in enumerate(self.tokens):
            if token.kind != "sign":
                continue
            if token.text in _CLOSING:
                open_ones.append(at)
            elif token.text in _CLOSING.values():
                opened = open_ones.pop()
                if _CLOSING[self[opened]] != token.text:
                    raise Puzzled(f"{self.path}:{self.line(at)}: brackets do not match")
                self.partner[opened], self.partner[at] = at, opened

    def _function_at(self, brace):
        """The function whose body starts at this brace, or None."""
        at, returns = brace - 1, ""
        if self[at] == "]":  # a lambda without parameters
            return self._lambda(brace, at, "")
        back = at
        while self[back] not in (")", ";", "{", "}", "") and back > brace - 40:
            if self[back] == "->":
                returns = self.spelled(back + 1, brace).replace(" ", "")
                at = back - 1
            back -= 1
        while self[at] in ("const", "noexcept", "override", "final", "mutable", "&"):
            at -= 1
        if self[at] != ")":
            return None
        name_at = self.partner[at] - 1
        name = self[name_at]
        if "operator" in (self[name_at - 1], self[name_at - 2]):  # operator() or []
            name_at -= 1 if self[name_at - 1] == "operator" else 2
            name = self.spelled(name_at, self.partner[at])
        elif name == "]":
            return self._lambda(brace, name_at, returns)
        elif self.tokens[name_at].kind != "name" or name in _NOT_FUNCTIONS:
            return None
        while self[name_at - 1] == "::":  # a member, by its last names
            name = f"{self[name_at - 2]}::{name}"
            name_at -= 2
        begin = name_at
        while self[begin - 1] not in (";", "{", "}", ":", "") and begin > 0:
            begin -= 1
        kept = self.spelled(begin, name_at).replace("[[nodiscard]]", "")
        kept = re.sub(r"\b(inline|constexpr|static|explicit|friend)\b", "", kept)
        kept = re.sub(r"^template <.*>(?= )", "", kept.strip())
        return Function(name, kept.replace(" ", ""), brace, self.partner[brace])

    def _lambda(self, brace, closing, returns):
        begin = self.partner[closing]
        if self[begin - 1] != "=" and self.tokens[begin - 1].kind == "name":
            return None  # an array's index
        name = f"{self[begin - 2]}" if self[begin - 1] == "=" else "lambda"
        return Function(name, returns, brace, self.partner[brace])
