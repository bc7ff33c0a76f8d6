//! Algebra to JSON, for programs that look at queries.
//!
//! Every node is an object with a `kind`:
//!
//! | kind | fields |
//! |---|---|
//! | `or`, `and`, `union` | `operands` |
//! | `compare`, `arithmetic` | `operator` (as a query writes it), `left`, `right` |
//! | `negate` | `operand` |
//! | `map` | `nodes`, `value` |
//! | `intersect`, `except` | `left`, `right` |
//! | `number` | `value`: a number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `literal` | `value` |
//! | `call` | `function` (as a query writes it), `arguments` |
//! | `path` | `start`, `steps` |
//! | starts: `root`, `context` | none |
//! | start: `variable` | `name`, `id` |
//! | start: `filter` | `primary`, `predicates` |
//!
//! For-Where-Return queries:
//!
//! | kind | fields |
//! |---|---|
//! | `flwr-query` | `body` |
//! | `sequence` | `items` |
//! | `flwr` | `clauses`, `where` (or null), `grouping` (or null), `order` (objects with `key`, `descending`, `empty_greatest`), `return` |
//! | `grouping` | `keys` and `values` (objects with `name` and `value`), `where` (or null) |
//! | clause: `for` | `name`, `id`, `position` (a name, or null), `source` |
//! | clause: `let` | `name`, `id`, `value` |
//! | `if` | `condition`, `then`, `else` |
//! | `element` | `qname`, `namespace`, `local`, `declarations` (`prefix`, `uri`), `attributes`, `content` |
//! | `attribute` | `qname`, `namespace`, `local`, `value`: a list of `text` and `enclosed` |
//! | `computed-element` | `name`, `declarations`, `content` |
//! | `computed-attribute` | `qname` (or null), `name` (or null), `value` (or null) |
//! | `text-constructor` | `item` |
//! | content: `text` | `value` |
//! | content: `enclosed` | `item` |
//! | `comment-constructor` | `value` |
//! | `processing-instruction-constructor` | `target`, `data` |
//!
//! A step has `axis`, `test` and `predicates`. A test is `{"kind": "name", "namespace": uri or null (any), "local": name or
//! "*"}`, or `{"kind": "node" | "text" | "comment"}`, or `{"kind": "processing-instruction", "target": text or null}`.

use super::Query;
use super::ast::{Expr, NameTest, NodeTest, Path, PathStart, Step, VariableId};
use super::flwr::{
    AttributeValuePart, BindingClause, ComputedAttribute, ComputedElement, ComputedName, ElementConstructor,
    ElementContent, FlwrExpr, Grouping, ItemExpr, Variable,
};
use super::typed::TypedConstant;
use crate::util::json::Json;
use crate::util::number;
use crate::util::places::Region;
use crate::util::places::region::RegionArgument;
use crate::vocabulary::{Name, Vocabulary};

/// Returns a query as a JSON object.
pub fn query(query: &Query, vocabulary: &Vocabulary) -> String {
    let json = match query {
        Query::XPath(expr) => QueryToJson { vocabulary, variables: &[] }.expr(expr),
        Query::Flwr(flwr) => {
            let convert = QueryToJson { vocabulary, variables: &flwr.variables };
            Json::of_kind("flwr-query", [("body", convert.item(&flwr.body))])
        }
    };
    json.to_string()
}

/// Converts the parts of one query.
struct QueryToJson<'a> {
    vocabulary: &'a Vocabulary,
    /// The variables of the query, by number.
    variables: &'a [Variable],
}

impl QueryToJson<'_> {
    fn expr(&self, expr: &Expr) -> Json {
        match expr {
            Expr::Or(operands) => Json::of_kind("or", [("operands", self.exprs(operands))]),
            Expr::And(operands) => Json::of_kind("and", [("operands", self.exprs(operands))]),
            Expr::Union(operands) => Json::of_kind("union", [("operands", self.exprs(operands))]),
            Expr::Compare { op, left, right } => self.binary("compare", op.symbol(), left, right),
            Expr::Arithmetic { op, left, right } => self.binary("arithmetic", op.symbol(), left, right),
            Expr::Negate(operand) => Json::of_kind("negate", [("operand", self.expr(operand))]),
            Expr::Number(value) => {
                // JSON has no infinity and no NaN, and its readers take `-0` for the integer 0.
                let value = match value {
                    value if *value == 0.0 && value.is_sign_negative() => Json::from("-0"),
                    value if value.is_finite() => Json::Number(*value),
                    value => Json::from(&*number::format(*value)),
                };
                Json::of_kind("number", [("value", value)])
            }
            Expr::Literal(value) => Json::of_kind("literal", [("value", (&**value).into())]),
            Expr::Typed(constant) => self.typed(constant),
            Expr::Pattern(pattern) => Json::of_kind("literal", [("value", pattern.text().into())]),
            Expr::Selection(selection) => Json::of_kind("literal", [("value", selection.text().into())]),
            Expr::Region(region) => self.region(region),
            Expr::Map { nodes, value } => {
                Json::of_kind("map", [("nodes", self.expr(nodes)), ("value", self.expr(value))])
            }
            Expr::Call { function, arguments } if function.facts().is_operator => {
                let (left, right) = (self.expr(&arguments[0]), self.expr(&arguments[1]));
                Json::of_kind(function.name(), [("left", left), ("right", right)])
            }
            Expr::Call { function, arguments } => {
                Json::of_kind("call", [("function", function.name().into()), ("arguments", self.exprs(arguments))])
            }
            Expr::Path(path) => self.path(path),
        }
    }

    /// A constant of a type is the call that makes it.
    fn typed(&self, constant: &TypedConstant) -> Json {
        let (function, text) = constant.call();
        let literal = |text: &&str| Json::of_kind("literal", [("value", (*text).into())]);
        Json::of_kind("call", [("function", function.into()), ("arguments", Json::list(&[&*text], literal))])
    }

    /// A region is the call that makes it.
    fn region(&self, region: &Region) -> Json {
        let argument = |argument: &RegionArgument| match argument {
            RegionArgument::Number(number) => self.expr(&Expr::Number(*number)),
            RegionArgument::Text(text) => Json::of_kind("literal", [("value", (&**text).into())]),
        };
        let arguments = Json::list(region.arguments(), argument);
        Json::of_kind("call", [("function", region.kind().name().into()), ("arguments", arguments)])
    }

    fn exprs(&self, exprs: &[Expr]) -> Json {
        Json::list(exprs, |expr| self.expr(expr))
    }

    fn binary(&self, kind: &str, operator: &str, left: &Expr, right: &Expr) -> Json {
        Json::of_kind(kind, [("operator", operator.into()), ("left", self.expr(left)), ("right", self.expr(right))])
    }

    fn path(&self, path: &Path) -> Json {
        let start = match &path.start {
            PathStart::Root => Json::of_kind("root", []),
            PathStart::Context => Json::of_kind("context", []),
            PathStart::Variable(id) => Json::of_kind("variable", self.variable(*id)),
            PathStart::Filter { primary, predicates } => {
                Json::of_kind("filter", [("primary", self.expr(primary)), ("predicates", self.exprs(predicates))])
            }
        };
        Json::of_kind("path", [("start", start), ("steps", Json::list(&path.steps, |step| self.step(step)))])
    }

    fn step(&self, step: &Step) -> Json {
        let test = match &step.test {
            NodeTest::Name(test) => self.name_test(*test),
            NodeTest::Node => Json::of_kind("node", []),
            NodeTest::Text => Json::of_kind("text", []),
            NodeTest::Comment => Json::of_kind("comment", []),
            NodeTest::ProcessingInstruction(target) => {
                Json::of_kind("processing-instruction", [("target", Json::optional(target.as_deref(), Json::from))])
            }
        };
        Json::object([("axis", step.axis.name().into()), ("test", test), ("predicates", self.exprs(&step.predicates))])
    }

    fn name_test(&self, test: NameTest) -> Json {
        let vocabulary = self.vocabulary;
        let (namespace, local) = match test {
            NameTest::Any => (None, "*"),
            NameTest::Name(name) => (Some(name.namespace), vocabulary.local_name(name.local)),
            NameTest::Namespace(namespace) => (Some(namespace), "*"),
            NameTest::Local(local) => (None, vocabulary.local_name(local)),
        };
        let namespace = Json::optional(namespace, |namespace| vocabulary.namespace_uri(namespace).into());
        Json::of_kind("name", [("namespace", namespace), ("local", local.into())])
    }

    fn variable(&self, id: VariableId) -> [(&'static str, Json); 2] {
        let name = self.variables.get(id.index()).map_or("", |variable| &variable.name);
        [("name", name.into()), ("id", id.as_u32().into())]
    }

    /// Returns the name of a variable.
    fn name_of(&self, id: VariableId) -> Json {
        let [(_, name), _] = self.variable(id);
        name
    }

    // For-Where-Return ------------------------------------------------------------------------------------------------

    fn item(&self, item: &ItemExpr) -> Json {
        match item {
            ItemExpr::Sequence(items) => Json::of_kind("sequence", [("items", Json::list(items, |i| self.item(i)))]),
            ItemExpr::Flwr(flwr) => self.flwr(flwr),
            ItemExpr::If(choice) => Json::of_kind(
                "if",
                [
                    ("condition", self.expr(&choice.condition)),
                    ("then", self.item(&choice.then)),
                    ("else", self.item(&choice.otherwise)),
                ],
            ),
            ItemExpr::Element(element) => self.element(element),
            ItemExpr::ComputedElement(element) => self.computed_element(element),
            ItemExpr::Attribute(attribute) => self.computed_attribute(attribute),
            ItemExpr::Text(item) => Json::of_kind("text-constructor", [("item", self.item(item))]),
            ItemExpr::Comment(text) => text_of_kind("comment-constructor", text),
            ItemExpr::ProcessingInstruction { target, data } => Json::of_kind(
                "processing-instruction-constructor",
                [("target", (&**target).into()), ("data", (&**data).into())],
            ),
            ItemExpr::Value(expr) => self.expr(expr),
        }
    }

    fn flwr(&self, flwr: &FlwrExpr) -> Json {
        let clauses = Json::list(&flwr.clauses, |clause| {
            let (kind, variable, position, field, expr) = match clause {
                BindingClause::For { variable, position, source } => ("for", variable, *position, "source", source),
                BindingClause::Let { variable, value } => ("let", variable, None, "value", value),
            };
            let [name, id] = self.variable(*variable);
            let position = Json::optional(position, |position| self.name_of(position));
            Json::of_kind(kind, [name, id, ("position", position), (field, self.expr(expr))])
        });
        let order = Json::list(&flwr.order, |key| {
            Json::object([
                ("key", self.expr(&key.key)),
                ("descending", key.descending.into()),
                ("empty_greatest", key.empty_greatest.into()),
            ])
        });
        let condition = Json::optional(flwr.condition.as_ref(), |condition| self.expr(condition));
        Json::of_kind(
            "flwr",
            [
                ("clauses", clauses),
                ("where", condition),
                ("grouping", Json::optional(flwr.grouping.as_ref(), |grouping| self.grouping(grouping))),
                ("order", order),
                ("return", self.item(&flwr.result)),
            ],
        )
    }

    fn grouping(&self, grouping: &Grouping) -> Json {
        let named = |pairs: &[(VariableId, Expr)]| {
            Json::list(pairs, |(variable, value)| {
                Json::object([("name", self.name_of(*variable)), ("value", self.expr(value))])
            })
        };
        let condition = Json::optional(grouping.condition.as_ref(), |condition| self.expr(condition));
        Json::object([("keys", named(&grouping.keys)), ("values", named(&grouping.values)), ("where", condition)])
    }

    fn computed_element(&self, element: &ComputedElement) -> Json {
        let name = ("name", self.expr(&element.name));
        let declarations = ("declarations", declarations(&element.declarations));
        Json::of_kind("computed-element", [name, declarations, ("content", self.content(&element.content))])
    }

    fn computed_attribute(&self, attribute: &ComputedAttribute) -> Json {
        let (qname, name) = match &attribute.name {
            ComputedName::Fixed(qname) => (Some(&**qname), None),
            ComputedName::Value(name) => (None, Some(name)),
        };
        let (qname, name) = (Json::optional(qname, Json::from), Json::optional(name, |name| self.expr(name)));
        let value = Json::optional(attribute.value.as_ref(), |value| self.item(value));
        Json::of_kind("computed-attribute", [("qname", qname), ("name", name), ("value", value)])
    }

    fn content(&self, content: &[ElementContent]) -> Json {
        Json::list(content, |part| match part {
            ElementContent::Text(text) => text_of_kind("text", text),
            ElementContent::Constructor(item) => self.item(item),
            ElementContent::Enclosed(item) => self.enclosed(item),
        })
    }

    fn element(&self, element: &ElementConstructor) -> Json {
        let attributes = Json::list(&element.attributes, |attribute| {
            let value = Json::list(&attribute.value, |part| match part {
                AttributeValuePart::Text(text) => text_of_kind("text", text),
                AttributeValuePart::Enclosed(item) => self.enclosed(item),
            });
            let [qname, namespace, local] = self.name(&attribute.qname, attribute.name);
            Json::of_kind("attribute", [qname, namespace, local, ("value", value)])
        });
        let [qname, namespace, local] = self.name(&element.qname, element.name);
        let declarations = ("declarations", declarations(&element.declarations));
        let content = ("content", self.content(&element.content));
        Json::of_kind("element", [qname, namespace, local, declarations, ("attributes", attributes), content])
    }

    fn enclosed(&self, item: &ItemExpr) -> Json {
        Json::of_kind("enclosed", [("item", self.item(item))])
    }

    fn name(&self, qname: &str, name: Name) -> [(&'static str, Json); 3] {
        [
            ("qname", qname.into()),
            ("namespace", self.vocabulary.namespace_uri(name.namespace).into()),
            ("local", self.vocabulary.local_name(name.local).into()),
        ]
    }
}

fn declarations(declarations: &[(Box<str>, Box<str>)]) -> Json {
    Json::list(declarations, |(prefix, uri)| Json::object([("prefix", (&**prefix).into()), ("uri", (&**uri).into())]))
}

fn text_of_kind(kind: &str, text: &str) -> Json {
    Json::of_kind(kind, [("value", text.into())])
}
