"""tokens: words of the text that the parser takes for something else: TOP, and parameters, whose places the tree does not keep."""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]


def with_tops(tokens: list[Token]) -> list[Token]:
    """The TOP of SELECT TOP 10 ... as the word that it is in other engines, which stands for LIMIT."""
    return [_retyped(t, TokenType.TOP) if _is_top(tokens, place) else t for place, t in enumerate(tokens)]


def _is_top(tokens: list[Token], position: int) -> bool:
    """Whether a word is the TOP of SELECT TOP 10 ..., and no column's name."""
    before, after = tokens[position - 1 : position], tokens[position + 1 : position + 5]
    if tokens[position].text.upper() != "TOP" or [t.text.upper() for t in before] not in (["SELECT"], ["DISTINCT"]):
        return False
    kinds = [token.token_type for token in after]
    if kinds[:1] == [TokenType.L_PAREN] and kinds[2:3] == [TokenType.R_PAREN]:
        kinds = [kinds[1], *kinds[3:]]
    return kinds[:1] == [TokenType.NUMBER] and kinds[1:2] not in ([], [TokenType.COMMA], [TokenType.FROM])


def _retyped(token: Token, kind: TokenType) -> Token:
    return Token(kind, token.text, token.line, token.col, token.start, token.end)


def _names_parameter(tokens: list[Token], position: int) -> bool:
    """Whether a colon stands before a parameter's name; in `SELECT n: COUNT(*)` it stands behind an alias."""
    if tokens[position].token_type != TokenType.COLON or position + 1 == len(tokens):
        return False
    before, after = tokens[position - 1], tokens[position + 1]
    named = before.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
    return not named and after.token_type == TokenType.VAR and after.start == tokens[position].end + 1


def numbered(tokens: list[Token]) -> list[Token]:
    """Each `?` as `$1`, `$2`, ... in the order of the text, which the tree does not keep."""
    found: list[Token] = []
    count = 0
    for position, token in enumerate(tokens):
        if _names_parameter(tokens, position):
            found.append(Token(TokenType.PARAMETER, "$", token.line, token.col, token.start, token.end))
        elif token.token_type == TokenType.PLACEHOLDER:
            count += 1
            at = (token.line, token.col, token.start, token.end)
            found.append(Token(TokenType.PARAMETER, "$", *at))
            found.append(Token(TokenType.NUMBER, str(count), *at))
        else:
            found.append(token)
    return found
