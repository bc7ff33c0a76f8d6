//! Writes For-Where-Return queries back as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::display::{Printed, Printer, Strength};
use super::flwr::{
    AttributeValuePart, BindingClause, ComputedAttribute, ComputedElement, ComputedName, ElementConstructor,
    ElementContent, FlwrExpr, FlwrQuery, Grouping, ItemExpr,
};
use crate::vocabulary::Vocabulary;

/// Writes a query, as [`super::display::expression`] does an expression.
pub fn query(query: &FlwrQuery, vocabulary: &Vocabulary, declared: &BTreeMap<String, String>) -> Printed {
    let names: Vec<Box<str>> = query.variables.iter().map(|variable| variable.name.clone()).collect();
    let mut printer = Printer::new(vocabulary, declared, &names);
    declarations(&query.body, &mut |prefix, uri| printer.avoid_prefix(prefix, uri));
    printer.references = true;
    printer.top(&query.body);
    printer.finish()
}

/// Calls back with every prefix and URI that a constructor declares.
fn declarations(item: &ItemExpr, declare: &mut dyn FnMut(&str, &str)) {
    match item {
        ItemExpr::Sequence(items) => items.iter().for_each(|item| declarations(item, declare)),
        ItemExpr::Flwr(flwr) => declarations(&flwr.result, declare),
        ItemExpr::If(choice) => {
            declarations(&choice.then, declare);
            declarations(&choice.otherwise, declare);
        }
        ItemExpr::Element(element) => {
            element.declarations.iter().for_each(|(prefix, uri)| declare(prefix, uri));
            for part in &element.content {
                if let ElementContent::Constructor(item) | ElementContent::Enclosed(item) = part {
                    declarations(item, declare);
                }
            }
        }
        ItemExpr::ComputedElement(element) => {
            element.declarations.iter().for_each(|(prefix, uri)| declare(prefix, uri));
            for part in &element.content {
                if let ElementContent::Constructor(item) | ElementContent::Enclosed(item) = part {
                    declarations(item, declare);
                }
            }
        }
        ItemExpr::Attribute(_)
        | ItemExpr::Text(_)
        | ItemExpr::Comment(_)
        | ItemExpr::ProcessingInstruction { .. }
        | ItemExpr::Value(_) => {}
    }
}

impl Printer<'_> {
    /// Writes items where commas need no parentheses.
    fn top(&mut self, item: &ItemExpr) {
        match item {
            ItemExpr::Sequence(items) if items.len() > 1 => {
                for (index, item) in items.iter().enumerate() {
                    self.text.push_str(if index > 0 { ", " } else { "" });
                    self.item(item);
                }
            }
            item => self.item(item),
        }
    }

    fn item(&mut self, item: &ItemExpr) {
        match item {
            ItemExpr::Sequence(_) => {
                self.text.push('(');
                if !matches!(item, ItemExpr::Sequence(items) if items.is_empty()) {
                    self.top(item);
                }
                self.text.push(')');
            }
            ItemExpr::Flwr(flwr) => self.flwr(flwr),
            ItemExpr::If(choice) => {
                self.text.push_str("if (");
                self.expr(&choice.condition, Strength::Or);
                self.text.push_str(") then ");
                self.item(&choice.then);
                self.text.push_str(" else ");
                self.item(&choice.otherwise);
            }
            ItemExpr::Element(element) => self.element(element),
            ItemExpr::ComputedElement(element) => self.computed_element(element),
            ItemExpr::Attribute(attribute) => self.computed_attribute(attribute),
            ItemExpr::Text(item) => {
                self.text.push_str("text ");
                self.braces(Some(item));
            }
            ItemExpr::Comment(text) => {
                let _ = write!(self.text, "<!--{text}-->");
            }
            ItemExpr::ProcessingInstruction { target, data } => {
                let _ = write!(self.text, "<?{target}{}{data}?>", if data.is_empty() { "" } else { " " });
            }
            // A lone `/` would swallow the word after it.
            ItemExpr::Value(expr) => self.expr(expr, Strength::And),
        }
    }

    fn flwr(&mut self, flwr: &FlwrExpr) {
        for clause in &flwr.clauses {
            let (word, variable, position, joint, expr) = match clause {
                BindingClause::For { variable, position, source } => ("for", variable, *position, "in", source),
                BindingClause::Let { variable, value } => ("let", variable, None, ":=", value),
            };
            let name = self.variable_name(*variable).to_owned();
            let _ = write!(self.text, "{word} ${name} ");
            if let Some(position) = position {
                let name = self.variable_name(position).to_owned();
                let _ = write!(self.text, "at ${name} ");
            }
            let _ = write!(self.text, "{joint} ");
            self.expr(expr, Strength::And);
            self.text.push(' ');
        }
        self.where_clause(flwr.condition.as_ref());
        if let Some(grouping) = &flwr.grouping {
            self.grouping(grouping);
        }
        for (index, key) in flwr.order.iter().enumerate() {
            self.text.push_str(if index > 0 { ", " } else { "order by " });
            self.expr(&key.key, Strength::And);
            self.text.push_str(if key.descending { " descending" } else { "" });
            self.text.push_str(if key.empty_greatest { " empty greatest" } else { "" });
        }
        self.text.push_str(if flwr.order.is_empty() { "return " } else { " return " });
        self.item(&flwr.result);
    }

    fn where_clause(&mut self, condition: Option<&super::ast::Expr>) {
        if let Some(condition) = condition {
            self.text.push_str("where ");
            let is_path = matches!(condition, super::ast::Expr::Path(_));
            self.expr(condition, if is_path { Strength::And } else { Strength::Or });
            self.text.push(' ');
        }
    }

    fn grouping(&mut self, grouping: &Grouping) {
        for (index, (variable, key)) in grouping.keys.iter().enumerate() {
            let name = self.variable_name(*variable).to_owned();
            let _ = write!(self.text, "{} ${name} := ", if index > 0 { "," } else { "group by" });
            self.expr(key, Strength::And);
        }
        self.text.push(' ');
        for (variable, value) in &grouping.values {
            let name = self.variable_name(*variable).to_owned();
            let _ = write!(self.text, "let ${name} := ");
            self.expr(value, Strength::And);
            self.text.push(' ');
        }
        self.where_clause(grouping.condition.as_ref());
    }

    fn computed_element(&mut self, element: &ComputedElement) {
        self.text.push_str("element { ");
        self.expr(&element.name, Strength::And);
        self.text.push_str(" } ");
        let content = element.content.iter().find_map(|part| match part {
            ElementContent::Constructor(item) | ElementContent::Enclosed(item) => Some(item),
            ElementContent::Text(_) => None,
        });
        self.braces(content);
    }

    fn computed_attribute(&mut self, attribute: &ComputedAttribute) {
        self.text.push_str("attribute ");
        match &attribute.name {
            ComputedName::Fixed(name) => self.text.push_str(name),
            ComputedName::Value(name) => {
                self.text.push_str("{ ");
                self.expr(name, Strength::And);
                self.text.push_str(" }");
            }
        }
        self.text.push(' ');
        self.braces(attribute.value.as_ref());
    }

    fn braces(&mut self, item: Option<&ItemExpr>) {
        match item {
            Some(item) => self.enclosed(item),
            None => self.text.push_str("{}"),
        }
    }

    fn element(&mut self, element: &ElementConstructor) {
        let _ = write!(self.text, "<{}", element.qname);
        for (prefix, uri) in &element.declarations {
            let _ = write!(self.text, " xmlns{}{prefix}=\"", if prefix.is_empty() { "" } else { ":" });
            self.escaped(uri, true);
            self.text.push('"');
        }
        for attribute in &element.attributes {
            let _ = write!(self.text, " {}=\"", attribute.qname);
            for part in &attribute.value {
                match part {
                    AttributeValuePart::Text(text) => self.escaped(text, true),
                    AttributeValuePart::Enclosed(item) => self.enclosed(item),
                }
            }
            self.text.push('"');
        }
        if element.content.is_empty() {
            self.text.push_str("/>");
            return;
        }
        self.text.push('>');
        for part in &element.content {
            match part {
                ElementContent::Text(text) => self.constant(text),
                ElementContent::Constructor(item) => self.item(item),
                ElementContent::Enclosed(item) => self.enclosed(item),
            }
        }
        let _ = write!(self.text, "</{}>", element.qname);
    }

    fn enclosed(&mut self, item: &ItemExpr) {
        self.text.push_str("{ ");
        self.top(item);
        self.text.push_str(" }");
    }

    /// Writes text of an element. White space alone would be dropped, so its first character becomes a reference.
    fn constant(&mut self, text: &str) {
        let mut rest = text;
        if text.bytes().all(super::lexer::is_space) {
            let first = text.chars().next().map_or(0, |c| c as u32);
            let _ = write!(self.text, "&#{first};");
            rest = text.get(1..).unwrap_or("");
        }
        self.escaped(rest, false);
    }

    fn escaped(&mut self, text: &str, in_attribute: bool) {
        for character in text.chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' if in_attribute => self.text.push_str("&quot;"),
                '\r' => self.text.push_str("&#13;"),
                '\t' | '\n' if in_attribute => {
                    let _ = write!(self.text, "&#{};", character as u32);
                }
                '{' => self.text.push_str("{{"),
                '}' => self.text.push_str("}}"),
                other => self.text.push(other),
            }
        }
    }
}
