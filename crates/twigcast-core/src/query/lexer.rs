//! Tokens of XPath 1.0 (section 3.7), read on demand.
//!
//! The lexer never fails: what it cannot read becomes a token that no rule accepts, so that the parser, which knows the
//! context, can say what is wrong. Whether `*` multiplies and whether `and`, `or`, `div` and `mod` are operators is also
//! the parser's to decide: an operator can only stand where an operand has just ended, which is the rule of section 3.7.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// The end of the text.
    End,
    /// `12`, `1.5`, `.5`.
    Number,
    /// `'...'` or `"..."`, quotes included.
    Literal,
    /// A quote that is never closed.
    UnclosedLiteral,
    /// `name` or `prefix:name`; [`Token::colon`] tells which.
    Name,
    /// `prefix:*`.
    NamespaceStar,
    /// `*:name`.
    LocalStar,
    /// `*`.
    Star,
    /// `$name`.
    Variable,
    Slash,
    DoubleSlash,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    At,
    Comma,
    Pipe,
    /// `||` (XPath 3.1).
    DoublePipe,
    /// `!` (XPath 3.1).
    Bang,
    /// `<<` and `>>` (XPath 3.1).
    Before,
    After,
    Plus,
    Minus,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Dot,
    DotDot,
    ColonColon,
    /// `:=` (For-Where-Return).
    Assign,
    /// `(:` without its `:)`.
    UnclosedComment,
    /// A character that starts no token.
    Other,
}

/// A token: what and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: TokenKind,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Offset of the colon of a prefixed name; 0 (never a colon's place) if there is none.
    pub colon: usize,
}

/// Reads tokens out of a query's text.
#[derive(Clone, Copy)]
pub(crate) struct Lexer<'a> {
    pub text: &'a str,
    /// The offset behind the last token.
    pub position: usize,
    /// `(: ... :)` is a comment (XQuery) rather than an error.
    pub comments: bool,
    /// `<>` is one token, a synonym of `!=` (legacy dialect).
    pub angle_not_equal: bool,
}

impl<'a> Lexer<'a> {
    /// Returns the byte at `offset`, 0 past the end (NUL is no character of a query).
    #[inline]
    fn byte(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(offset).copied().unwrap_or(0)
    }

    /// Skips white space and, where they exist, comments. `false`: a comment is not closed.
    pub fn skip_space(&mut self) -> bool {
        loop {
            while is_space(self.byte(self.position)) {
                self.position += 1;
            }
            if !self.comments || self.byte(self.position) != b'(' || self.byte(self.position + 1) != b':' {
                return true;
            }
            match comment_end(self.text.as_bytes(), self.position) {
                Some(end) => self.position = end,
                None => return false,
            }
        }
    }

    /// Returns the byte after white space and comments, without moving; 0 where a comment is not closed.
    pub fn peek(&self) -> u8 {
        let mut lookahead = *self;
        if lookahead.skip_space() { lookahead.byte(lookahead.position) } else { 0 }
    }

    /// Returns `true` if `::` comes next.
    pub fn peek_axis(&self) -> bool {
        let mut lookahead = *self;
        lookahead.skip_space();
        lookahead.byte(lookahead.position) == b':' && lookahead.byte(lookahead.position + 1) == b':'
    }

    /// Reads the next token.
    pub fn next(&mut self) -> Token {
        if !self.skip_space() {
            let start = self.position;
            self.position = self.text.len();
            return Token { kind: TokenKind::UnclosedComment, start, end: self.text.len(), colon: 0 };
        }
        let start = self.position;
        let first = self.byte(start);
        if is_name_start_byte(first) || first >= 0x80 {
            return self.name(start, start);
        }
        let second = self.byte(start + 1);
        let (kind, length) = match first {
            0 => (TokenKind::End, 0),
            b'0'..=b'9' => return self.number(start),
            b'.' if second.is_ascii_digit() => return self.number(start),
            b'.' if second == b'.' => (TokenKind::DotDot, 2),
            b'.' => (TokenKind::Dot, 1),
            b'\'' | b'"' => return self.literal(start, first),
            b'$' => return self.variable(start),
            b'*' => return self.star(start),
            b'/' if second == b'/' => (TokenKind::DoubleSlash, 2),
            b'/' => (TokenKind::Slash, 1),
            b'(' => (TokenKind::OpenParen, 1),
            b')' => (TokenKind::CloseParen, 1),
            b'[' => (TokenKind::OpenBracket, 1),
            b']' => (TokenKind::CloseBracket, 1),
            b'{' => (TokenKind::OpenBrace, 1),
            b'}' => (TokenKind::CloseBrace, 1),
            b'@' => (TokenKind::At, 1),
            b',' => (TokenKind::Comma, 1),
            b'|' if second == b'|' => (TokenKind::DoublePipe, 2),
            b'|' => (TokenKind::Pipe, 1),
            b'+' => (TokenKind::Plus, 1),
            b'-' => (TokenKind::Minus, 1),
            b'=' => (TokenKind::Equal, 1),
            b'!' if second == b'=' => (TokenKind::NotEqual, 2),
            b'!' => (TokenKind::Bang, 1),
            b'<' if second == b'<' => (TokenKind::Before, 2),
            b'>' if second == b'>' => (TokenKind::After, 2),
            b'<' if second == b'=' => (TokenKind::LessOrEqual, 2),
            b'<' if second == b'>' && self.angle_not_equal => (TokenKind::NotEqual, 2),
            b'<' => (TokenKind::Less, 1),
            b'>' if second == b'=' => (TokenKind::GreaterOrEqual, 2),
            b'>' => (TokenKind::Greater, 1),
            b':' if second == b':' => (TokenKind::ColonColon, 2),
            b':' if second == b'=' => (TokenKind::Assign, 2),
            _ => (TokenKind::Other, 1),
        };
        self.token(kind, start, start + length)
    }

    fn token(&mut self, kind: TokenKind, start: usize, end: usize) -> Token {
        self.position = end;
        Token { kind, start, end, colon: 0 }
    }

    /// Returns one past the last byte of the NCName at `start`; `start` itself if there is none.
    fn ncname_end(&self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = start;
        while end < bytes.len() {
            let byte = bytes[end];
            if byte < 0x80 {
                if !is_name_byte(byte) || (end == start && !is_name_start_byte(byte)) {
                    break;
                }
                end += 1;
                continue;
            }
            let Some(character) = self.text[end..].chars().next() else { break };
            if !is_name_character(character) || (end == start && !is_name_start_character(character)) {
                break;
            }
            end += character.len_utf8();
        }
        end
    }

    /// Reads a name whose first part begins at `name_start`; the token begins at `start` (they differ for `$name`).
    fn name(&mut self, start: usize, name_start: usize) -> Token {
        let end = self.ncname_end(name_start);
        if end == name_start {
            let length = self.text[name_start..].chars().next().map_or(0, char::len_utf8);
            return self.token(TokenKind::Other, start, name_start + length);
        }
        if self.byte(end) != b':' {
            return self.token(TokenKind::Name, start, end);
        }
        if self.byte(end + 1) == b'*' {
            let mut token = self.token(TokenKind::NamespaceStar, start, end + 2);
            token.colon = end;
            return token;
        }
        let local_end = self.ncname_end(end + 1);
        if local_end == end + 1 {
            return self.token(TokenKind::Name, start, end);
        }
        let mut token = self.token(TokenKind::Name, start, local_end);
        token.colon = end;
        token
    }

    fn variable(&mut self, start: usize) -> Token {
        let mut lookahead = Self { position: start + 1, ..*self };
        lookahead.skip_space();
        let mut token = self.name(start, lookahead.position);
        token.kind = match token.kind {
            TokenKind::Name => TokenKind::Variable,
            _ => return self.token(TokenKind::Other, start, start + 1),
        };
        token
    }

    fn star(&mut self, start: usize) -> Token {
        if self.byte(start + 1) == b':' {
            let end = self.ncname_end(start + 2);
            if end > start + 2 {
                let mut token = self.token(TokenKind::LocalStar, start, end);
                token.colon = start + 1;
                return token;
            }
        }
        self.token(TokenKind::Star, start, start + 1)
    }

    fn number(&mut self, start: usize) -> Token {
        let mut end = start;
        while self.byte(end).is_ascii_digit() {
            end += 1;
        }
        if self.byte(end) == b'.' {
            end += 1;
            while self.byte(end).is_ascii_digit() {
                end += 1;
            }
        }
        self.token(TokenKind::Number, start, end)
    }

    /// Reads a string. A doubled quote stands for one and does not end it, as in XPath 3.1.
    fn literal(&mut self, start: usize, quote: u8) -> Token {
        let mut end = start + 1;
        loop {
            match memchr::memchr(quote, self.text.as_bytes().get(end..).unwrap_or_default()) {
                Some(length) => end += length + 1,
                None => return self.token(TokenKind::UnclosedLiteral, start, self.text.len()),
            }
            if self.byte(end) != quote {
                return self.token(TokenKind::Literal, start, end);
            }
            end += 1;
        }
    }
}

/// Returns one past the end of the comment that starts at `start`; comments nest.
fn comment_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut depth, mut position) = (0usize, start);
    while position + 1 < text.len() {
        match &text[position..position + 2] {
            b"(:" => {
                depth += 1;
                position += 2;
            }
            b":)" => {
                depth -= 1;
                position += 2;
                if depth == 0 {
                    return Some(position);
                }
            }
            _ => position += 1,
        }
    }
    None
}

/// Returns `true` for white space of XPath and XML.
#[inline]
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[inline]
fn is_name_start_byte(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

#[inline]
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Returns `true` for NameStartChar of XML 1.0 (fifth edition) without the colon.
pub(crate) fn is_name_start_character(character: char) -> bool {
    matches!(character,
        'A'..='Z' | 'a'..='z' | '_' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// Returns `true` for NameChar of XML 1.0 (fifth edition) without the colon.
pub(crate) fn is_name_character(character: char) -> bool {
    is_name_start_character(character)
        || matches!(character,
            '0'..='9' | '-' | '.' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Returns the first character of `text` that XML does not allow, as an offset.
pub(crate) fn first_forbidden_character(text: &str) -> Option<(usize, char)> {
    let suspicious = |byte: u8| byte < 0x20 && !is_space(byte) || byte == 0xEF;
    let start = text.bytes().position(suspicious)?;
    text[start..]
        .char_indices()
        .find(|&(_, c)| (c < ' ' && !is_space(c as u8)) || matches!(c, '\u{FFFE}' | '\u{FFFF}'))
        .map(|(offset, c)| (start + offset, c))
}
