//! Types in the parser: which operands go together, what constants are, and what to write instead.

use super::ast::{ArithmeticOp, Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::functions::ExprType;
use super::lexer::Token;
use super::operators::{Operator, combine};
use super::options::Dialect;
use super::parser::{Parsed, Parser};
use super::typed::{CastType, NumberForm, TypedConstant, TypedValue};
use crate::error::QueryErrorKind;
use crate::util::temporal::{Temporal, TemporalType};
use crate::vocabulary::NamespaceId;

/// Returns what binds tighter than all arithmetic: a value that is written where one has another type.
fn written(kind: ExprType) -> &'static str {
    match kind {
        ExprType::Temporal(kind) => kind.example(),
        ExprType::Version => "twig:version('2.17.1')",
        ExprType::QName => "xs:QName('prefix:name')",
        ExprType::NodeSet | ExprType::Boolean | ExprType::Number | ExprType::String => "a number",
    }
}

/// Returns whether values of a type have no meaning in XPath 1.0.
fn is_typed(kind: ExprType) -> bool {
    matches!(kind, ExprType::Temporal(_) | ExprType::Version | ExprType::QName)
}

/// Returns whether an expression is made of numbers that are made of others.
fn is_of_numbers(expr: &Expr) -> bool {
    matches!(expr, Expr::Call { function: Function::Min | Function::Max | Function::Avg | Function::Sum, .. })
}

/// Returns the context item.
pub(super) fn itself() -> Expr {
    let step = Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() };
    Expr::Path(Path { start: PathStart::Context, steps: vec![step] })
}

/// Returns whether an expression is `number()` of what is read as a number of XPath 3.1.
fn is_number_call(expr: &Expr) -> bool {
    let Expr::Call { function: Function::Number, arguments } = expr else { return false };
    matches!(arguments.as_slice(), [Expr::Call { function: Function::XsDouble, .. }])
}

/// Returns the argument of such a call; any other expression as it is.
fn without_number_call(expr: Expr) -> Expr {
    let is_call = is_number_call(&expr);
    match expr {
        Expr::Call { mut arguments, .. } if is_call => arguments.remove(0),
        expr => expr,
    }
}

impl Parser<'_, '_> {
    pub(super) fn type_of(&self, expr: &Expr) -> ExprType {
        expr.static_type(&self.variable_types)
    }

    fn unsupported<T>(&self, token: Token, message: String) -> Parsed<T> {
        Err(self.error(token.start, QueryErrorKind::Unsupported, message, &[]))
    }

    /// Returns what an operator makes of two operands, whose types have to go together.
    pub(super) fn combined(&self, operator: Operator, left: Expr, right: Expr, symbol: Token) -> Parsed<Expr> {
        if let Operator::Compare(op) = operator {
            if let Some(near) = self.near(op, &left, &right) {
                return Ok(near);
            }
            self.note_order(op, &left, &right, symbol);
            self.note_constant_name(&right);
            self.note_case(&left, &right, symbol.start);
            self.note_truth(&left, &right, symbol.start);
            self.check_meaning_in_xquery(op, (self.type_of(&left), self.type_of(&right)), symbol)?;
        }
        match operator {
            Operator::Arithmetic(ArithmeticOp::Subtract) => self.note_subtracted_date(symbol),
            Operator::Or | Operator::And => self.note_constants(&[&left, &right], symbol.start),
            _ => {}
        }
        let (left, right) = match operator {
            Operator::Join => (self.written(left, symbol.start)?, self.written(right, symbol.start)?),
            _ => self.as_doubles(operator, left, right),
        };
        let types = (self.type_of(&left), self.type_of(&right));
        match operator {
            Operator::Compare(op) if is_typed(types.0) || is_typed(types.1) => {
                self.typed_comparison(op, left, right, types, symbol)
            }
            Operator::Arithmetic(op) if is_typed(types.0) || is_typed(types.1) => {
                self.typed_arithmetic(op, left, right, types, symbol)
            }
            _ => Ok(combine(operator, left, right)),
        }
    }

    fn typed_comparison(
        &self,
        op: CompareOp,
        left: Expr,
        right: Expr,
        types: (ExprType, ExprType),
        symbol: Token,
    ) -> Parsed<Expr> {
        use ExprType::{NodeSet, QName, Temporal};
        let is_order = !op.is_equality();
        match types {
            (QName, _) | (_, QName) if is_order => {
                let message = format!("names have no order; `{}` cannot compare them, write `=`", self.text_of(symbol));
                self.unsupported(symbol, message)
            }
            (NodeSet, QName) | (QName, NodeSet) => {
                let (nodes, name) = if types.0 == NodeSet { (left, right) } else { (right, left) };
                match resolved(nodes, op, name) {
                    Some(expr) => Ok(expr),
                    None => {
                        let message = "a name is compared with an attribute or an element of a name, as in \
                                       [@xsi:type = xs:QName('p:name')]; write resolve-QName(text, element) for others";
                        self.unsupported(symbol, message.into())
                    }
                }
            }
            (one, other) if one == other || one == NodeSet || other == NodeSet => {
                Ok(combine(Operator::Compare(op), left, right))
            }
            (Temporal(one), Temporal(other)) => {
                let message = format!(
                    "{} and {} are not compared with each other; convert one, as in {}(...)",
                    one.name(),
                    other.name(),
                    if one.is_duration() { one } else { other }.name(),
                );
                self.unsupported(symbol, message)
            }
            _ if is_of_numbers(&left) || is_of_numbers(&right) => {
                let message = "min(), max(), avg() and sum() make numbers of what they take; compare the nodes themselves, as in a \
                               > xs:date('2026-11-30'), which holds if one does, or use dialect=\"xquery\"";
                self.unsupported(symbol, message.into())
            }
            (one, other) => {
                let (typed, other) = if is_typed(one) { (one, other) } else { (other, one) };
                let message = format!(
                    "a value of {} is compared with another one, and this is {}; write {} for it",
                    typed.name(),
                    other.one(),
                    written(typed),
                );
                self.unsupported(symbol, message)
            }
        }
    }

    fn typed_arithmetic(
        &self,
        op: ArithmeticOp,
        left: Expr,
        right: Expr,
        types: (ExprType, ExprType),
        symbol: Token,
    ) -> Parsed<Expr> {
        use ArithmeticOp as Op;
        use ExprType::{Number, Temporal};
        let swapped = op == Op::Add
            && matches!(types, (Temporal(one), Temporal(other)) if one.is_duration() && !other.is_duration())
            || op == Op::Multiply && types.0 == Number;
        let (left, right, types) = if swapped { (right, left, (types.1, types.0)) } else { (left, right, types) };
        let takes = |point: TemporalType, duration: TemporalType| match (point, duration) {
            (TemporalType::Time, TemporalType::YearMonthDuration) => false,
            (one, other) => one == other || !one.is_duration(),
        };
        let typed = match (op, types) {
            (Op::Add, (Temporal(one), Temporal(other))) if other.is_duration() && takes(one, other) => Op::AddDuration,
            (Op::Subtract, (Temporal(one), Temporal(other))) if other.is_duration() && takes(one, other) => {
                Op::SubtractDuration
            }
            (Op::Subtract, (Temporal(one), Temporal(other))) if one == other => Op::Between,
            (Op::Multiply, (Temporal(one), Number)) if one.is_duration() => Op::MultiplyDuration,
            (Op::Divide, (Temporal(one), Number)) if one.is_duration() => Op::DivideDuration,
            (Op::Divide, (Temporal(one), Temporal(other))) if one == other && one.is_duration() => Op::DivideDurations,
            (_, (one, other)) => {
                let message = format!(
                    "`{}` does not go between {} and {}; a date or time takes a duration, as in xs:date(a) + \
                     xs:dayTimeDuration('P30D'), and gives one where another is subtracted",
                    self.text_of(symbol),
                    one.one(),
                    other.one(),
                );
                return self.unsupported(symbol, message);
            }
        };
        let expr = Expr::Arithmetic { op: typed, left: Box::new(left), right: Box::new(right) };
        self.folded(expr, symbol)
    }

    /// Returns the constant that an expression of constants is.
    fn folded(&self, expr: Expr, symbol: Token) -> Parsed<Expr> {
        let Expr::Arithmetic { op, left, right } = &expr else { return Ok(expr) };
        let constant = |operand: &Expr| match operand {
            Expr::Typed(constant) => Some(constant.value()),
            Expr::Number(number) => Some(TypedValue::Number(*number)),
            _ => None,
        };
        let (Some(one), Some(other)) = (constant(left), constant(right)) else { return Ok(expr) };
        match op.of_temporals(&one, &other) {
            Some(TypedValue::Temporal(temporal)) => Ok(Expr::Typed(TypedConstant::Temporal(temporal))),
            Some(TypedValue::Number(number)) => Ok(Expr::Typed(TypedConstant::Double(number))),
            _ => self.unsupported(symbol, "the result is out of range; no message could have such a value".into()),
        }
    }

    /// Returns two operands so that texts become numbers as the dialect says.
    fn as_doubles(&self, operator: Operator, left: Expr, right: Expr) -> (Expr, Expr) {
        if !self.reads_doubles() {
            return (left, right);
        }
        match operator {
            Operator::Compare(op) if op != CompareOp::NotEqual && (is_number_call(&left) || is_number_call(&right)) => {
                // NaN compares with nothing, but for `!=`: the same as a value that is no number, which has an index.
                self.as_doubles(operator, without_number_call(left), without_number_call(right))
            }
            Operator::Compare(op) => match (self.type_of(&left), self.type_of(&right)) {
                (ExprType::NodeSet, ExprType::Number | ExprType::String) => (left, self.compared_double(op, right)),
                (ExprType::Number | ExprType::String, ExprType::NodeSet) => (self.compared_double(op, left), right),
                (ExprType::Number, ExprType::String) => (left, self.as_double(right)),
                (ExprType::String, ExprType::Number) => (self.as_double(left), right),
                _ => (left, right),
            },
            Operator::Arithmetic(_) => (self.as_double(left), self.as_double(right)),
            Operator::Or
            | Operator::And
            | Operator::Join
            | Operator::Range
            | Operator::NodeOrder(_)
            | Operator::ContainsText => (left, right),
        }
    }

    /// Returns what nodes are compared with, as a number of XPath 3.1 if it is a number.
    fn compared_double(&self, op: CompareOp, expr: Expr) -> Expr {
        match expr {
            Expr::Number(number) => Expr::Typed(TypedConstant::Double(number)),
            Expr::Literal(text) if !op.is_equality() => match crate::util::number::parse_double(&text) {
                Some(number) => Expr::Typed(TypedConstant::Double(number)),
                None => Expr::Literal(text),
            },
            expr if self.type_of(&expr) == ExprType::Number && expr.cast_type(ExprType::Number).is_none() => {
                Expr::Call { function: Function::XsDouble, arguments: vec![expr] }
            }
            expr => expr,
        }
    }

    /// Returns an operand of which a number is made, as the dialect reads it.
    pub(super) fn as_double(&self, expr: Expr) -> Expr {
        let is_text = matches!(self.type_of(&expr), ExprType::NodeSet | ExprType::String) && !expr.is_constant();
        if is_text && self.reads_doubles() {
            return Expr::Call { function: Function::XsDouble, arguments: vec![expr] };
        }
        expr
    }

    /// Returns whether texts are numbers as XPath 3.1 reads them.
    fn reads_doubles(&self) -> bool {
        matches!(self.options.dialect, Dialect::Doubles | Dialect::Native)
    }

    /// Refuses comparisons that XQuery has, but which mean something else to it: of two texts by order, which it compares by
    /// code points, and of a truth value with another type, which it converts rather than asking whether there is a node.
    fn check_meaning_in_xquery(&self, op: CompareOp, types: (ExprType, ExprType), symbol: Token) -> Parsed<()> {
        if self.options.dialect != Dialect::Native {
            return Ok(());
        }
        let is_text = |kind| matches!(kind, ExprType::NodeSet | ExprType::String);
        let message = if !op.is_equality() && is_text(types.0) && is_text(types.1) {
            format!("`{}` compares texts by code points in XQuery", op.symbol())
        } else if (types.0 == ExprType::Boolean) != (types.1 == ExprType::Boolean) {
            format!("`{}` converts a value to a truth value in XQuery", op.symbol())
        } else {
            return Ok(());
        };
        Err(self.error(symbol.start, QueryErrorKind::Unsupported, message, &[]))
    }

    /// Returns a call of a function that takes a number, as the dialect reads texts.
    fn call_of_double(&self, function: Function, mut arguments: Vec<Expr>) -> Expr {
        let read = |text| Expr::Call { function: Function::XsDouble, arguments: vec![text] };
        match function {
            Function::Number => {
                let argument = self.as_double(arguments.pop().unwrap_or_else(itself));
                Expr::Call { function, arguments: vec![argument] }
            }
            Function::Substring => {
                let text = arguments.remove(0);
                let places = arguments.into_iter().map(|argument| self.as_double(argument));
                Expr::Call { function, arguments: std::iter::once(text).chain(places).collect() }
            }
            Function::Abs | Function::Floor | Function::Ceiling | Function::Round => {
                let arguments = arguments.into_iter().map(|argument| self.as_double(argument)).collect();
                Expr::Call { function, arguments }
            }
            Function::Sum | Function::Min | Function::Max | Function::Avg => {
                let each = |nodes| Expr::Map { nodes: Box::new(nodes), value: Box::new(read(itself())) };
                Expr::Call { function, arguments: arguments.into_iter().map(each).collect() }
            }
            _ => Expr::Call { function, arguments },
        }
    }

    /// Checks the arguments of a function for types that it does not take, and returns the constant that a call is.
    pub(super) fn typed_call(&mut self, function: Function, mut arguments: Vec<Expr>, name: Token) -> Parsed<Expr> {
        let types: Vec<_> = arguments.iter().map(|argument| self.type_of(argument)).collect();
        if function == Function::XsQName {
            return self.name_constant(&arguments, name);
        }
        if function == Function::ResolveQName && types[1] != ExprType::NodeSet {
            let message = "the second argument of resolve-QName() is the element whose namespaces are in scope: write \
                           resolve-QName(@type, .)";
            return self.unsupported(name, message.into());
        }
        if let (Function::Contains | Function::StartsWith | Function::EndsWith, [text, part]) = (function, &*arguments)
        {
            self.note_case(text, part, name.start);
        }
        let of_component = function.component().map(|(kind, _)| kind);
        for &kind in &types {
            let is_taken = match (kind, function) {
                (_, Function::Boolean | Function::Not) => true,
                (ExprType::Temporal(_), Function::String | Function::Concat | Function::XsString) => true,
                (ExprType::Temporal(TemporalType::DateTime), Function::TimeWithin) => true,
                (ExprType::Temporal(kind), _) => {
                    of_component.is_some_and(|of| of == kind)
                        || matches!(function.cast(), Some(CastType::Temporal(to)) if converts(kind, to))
                }
                (ExprType::Number | ExprType::Boolean, _) if of_component.is_some() => false,
                (ExprType::Number | ExprType::Boolean, _) => !matches!(function.cast(), Some(CastType::Temporal(_))),
                (ExprType::Version | ExprType::QName, _) => false,
                (ExprType::NodeSet | ExprType::String, _) => true,
            };
            if !is_taken {
                let instead = match (kind, of_component) {
                    (ExprType::Temporal(_), None) => "write string(...) for its text",
                    (_, Some(kind)) => &format!("it takes one as in {}", kind.example()),
                    (ExprType::Version | ExprType::QName, _) => "it can only be compared",
                    _ => "it takes a text",
                };
                let message = format!("{}() does not take {}; {instead}", self.text_of(name), kind.one());
                return self.unsupported(name, message);
            }
        }
        match (function.cast(), arguments.as_slice()) {
            (Some(cast), [Expr::Literal(text)]) => self.constant(function, cast, text, name),
            (Some(_), [Expr::Number(number)]) if function == Function::XsDouble => {
                Ok(Expr::Typed(TypedConstant::Double(*number)))
            }
            (Some(CastType::Temporal(kind)), [Expr::Typed(TypedConstant::Temporal(temporal))]) => {
                match temporal.cast(kind) {
                    Some(temporal) => Ok(Expr::Typed(TypedConstant::Temporal(temporal))),
                    None => Ok(Expr::Call { function, arguments }),
                }
            }
            (None, [value]) if function == Function::XsString && self.is_written_plainly(value) => {
                Ok(Expr::Call { function: Function::String, arguments })
            }
            _ if matches!(function, Function::String | Function::Concat) => {
                let written = arguments.into_iter().map(|argument| self.written(argument, name.start));
                Ok(Expr::Call { function, arguments: written.collect::<Parsed<_>>()? })
            }
            _ if function == Function::StringJoin => {
                let items = self.written(arguments.remove(0), name.start)?;
                Ok(Expr::Call { function, arguments: std::iter::once(items).chain(arguments).collect() })
            }
            _ if self.reads_doubles() => Ok(self.call_of_double(function, arguments)),
            _ => Ok(Expr::Call { function, arguments }),
        }
    }

    /// Returns whether the text of a value is its `string()` to XPath 3.1, too: of all but numbers that are doubles.
    fn is_written_plainly(&self, value: &Expr) -> bool {
        self.type_of(value) != ExprType::Number
            || matches!(self.form_of(value), NumberForm::Integer | NumberForm::Decimal)
    }

    /// Returns a text as a constant.
    fn constant(&self, function: Function, cast: CastType, text: &str, name: Token) -> Parsed<Expr> {
        let constant = match cast {
            CastType::Double => function.number_of_text(text).map(TypedConstant::Double),
            CastType::Temporal(kind) => Temporal::parse(kind, text).map(TypedConstant::Temporal),
            CastType::Version => match cast.parse(text) {
                Some(TypedValue::Version(version)) => Some(TypedConstant::Version(version, text.into())),
                _ => None,
            },
        };
        match constant {
            Some(constant) => Ok(Expr::Typed(constant)),
            None => {
                let example = match cast {
                    CastType::Double => format!("a number, as in {}('12')", self.text_of(name)),
                    CastType::Temporal(kind) => kind.example().to_owned(),
                    CastType::Version => written(ExprType::Version).to_owned(),
                };
                let message = format!("'{text}' is no value of {}; write {example}", self.text_of(name));
                Err(self.error(name.start, QueryErrorKind::Syntax, message, &[]))
            }
        }
    }

    /// Returns the name that `xs:QName('p:name')` is, by the namespaces of the query.
    fn name_constant(&mut self, arguments: &[Expr], name: Token) -> Parsed<Expr> {
        let Some(Expr::Literal(text)) = arguments.first() else {
            let message = "xs:QName() takes a literal; write resolve-QName(@type, .) for a name that a message has";
            return self.unsupported(name, message.into());
        };
        let text = text.trim_matches(crate::util::number::SPACES).to_owned();
        let (namespace, local) =
            if let Some((uri, local)) = text.strip_prefix("Q{").and_then(|rest| rest.rsplit_once('}')) {
                (self.vocabulary.intern_namespace(uri), local)
            } else {
                match text.split_once(':') {
                    Some((prefix, local)) if is_name(prefix) => (self.namespace_of(prefix, name.start)?, local),
                    Some(_) => (NamespaceId::NONE, &*text),
                    None => (self.default_namespace(), &*text),
                }
            };
        if !is_name(local) {
            let message = format!("'{text}' is no name; write {}", written(ExprType::QName));
            return Err(self.error(name.start, QueryErrorKind::Syntax, message, &[]));
        }
        let expanded = expanded_name(self.vocabulary.namespace_uri(namespace), local);
        Ok(Expr::Typed(TypedConstant::Name(namespace, expanded.into())))
    }

    /// Refuses a minus sign before an operand that cannot have one.
    pub(super) fn check_negation(&self, operand: &Expr, sign: Token) -> Parsed<()> {
        match self.type_of(operand) {
            ExprType::Temporal(kind) if kind.is_duration() => self
                .unsupported(sign, "a duration has no minus sign before it; write it as in '-P1D', or times -1".into()),
            kind if is_typed(kind) => self.unsupported(sign, format!("{} has no minus sign", kind.one())),
            _ => Ok(()),
        }
    }
}

/// Returns a name as `Q{namespace}local`, which tells names apart.
pub(crate) fn expanded_name(namespace: &str, local: &str) -> String {
    format!("Q{{{namespace}}}{local}")
}

/// Returns whether a text is a name without a colon.
pub(crate) fn is_name(text: &str) -> bool {
    use super::lexer::{is_name_character, is_name_start_character};
    text.starts_with(is_name_start_character) && text.chars().all(is_name_character)
}

/// Returns whether a value of one type can be one of another.
fn converts(from: TemporalType, to: TemporalType) -> bool {
    from == to || !from.is_duration() && Temporal::of_number(from, 0).is_some_and(|value| value.cast(to).is_some())
}

/// Returns the comparison of the names that nodes hold, read with the namespaces in scope there; `None` if they are no
/// attributes or elements of a name.
fn resolved(nodes: Expr, op: CompareOp, name: Expr) -> Option<Expr> {
    let Expr::Path(Path { start, mut steps }) = nodes else { return None };
    let itself = || Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() };
    let here = |step| Expr::Path(Path { start: PathStart::Context, steps: vec![step] });
    let last = steps.pop()?;
    let text = match (last.axis, &last.test) {
        (Axis::Attribute, NodeTest::Name(NameTest::Name(_))) if last.predicates.is_empty() => last,
        (Axis::Child | Axis::Descendant | Axis::SelfAxis, _) => {
            steps.push(last);
            itself()
        }
        _ => return None,
    };
    let arguments = vec![here(text), here(itself())];
    let read = Expr::Call { function: Function::ResolveQName, arguments };
    let condition = combine(Operator::Compare(op), read, name);
    match (start, steps.as_mut_slice()) {
        (PathStart::Context, []) => Some(condition),
        (start, [.., owner]) => {
            owner.predicates.push(condition);
            Some(Expr::Call { function: Function::Boolean, arguments: vec![Expr::Path(Path { start, steps })] })
        }
        _ => None,
    }
}

impl ArithmeticOp {
    /// Returns what the operator makes of dates, times, durations and numbers; `None` if that is out of range.
    pub(crate) fn of_temporals(self, left: &TypedValue, right: &TypedValue) -> Option<TypedValue> {
        use TypedValue::{Number, Temporal};
        Some(match (self, left, right) {
            (Self::AddDuration, Temporal(left), Temporal(right)) => Temporal(left.plus(*right)?),
            (Self::SubtractDuration, Temporal(left), Temporal(right)) => Temporal(left.plus(right.negated())?),
            (Self::Between, Temporal(left), Temporal(right)) => Temporal(left.since(*right)?),
            (Self::MultiplyDuration, Temporal(left), Number(right)) => Temporal(left.times(*right)?),
            (Self::DivideDuration, Temporal(left), Number(right)) => Temporal(left.times(1.0 / right)?),
            (Self::DivideDurations, Temporal(left), Temporal(right)) => Number(left.ratio(*right)?),
            _ => return None,
        })
    }

    /// Returns whether an operand is a date, a time or a duration.
    pub(crate) fn is_of_temporals(self) -> bool {
        !matches!(self, Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::Modulo)
    }
}

impl Parser<'_, '_> {
    /// Returns the comparison of two lists: one of their pairs compares so. `None`: there is no pair.
    pub(super) fn compared_pairs(
        &self,
        op: CompareOp,
        left: &[Expr],
        right: &[Expr],
        symbol: Token,
    ) -> Parsed<Option<Expr>> {
        let mut all: Option<Expr> = None;
        for left in left {
            for right in right {
                let pair = self.combined(Operator::Compare(op), left.clone(), right.clone(), symbol)?;
                all = Some(match all {
                    Some(all) => combine(Operator::Or, all, pair),
                    None => pair,
                });
            }
        }
        Ok(all)
    }
}
