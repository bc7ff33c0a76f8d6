//! Groups of bindings: those with equal keys become one binding, in which the variables hold the values of all.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use foldhash::fast::RandomState;

use super::super::ExtractError;
use super::super::program::instructions::{BoundExpr, FlwrLoop, GroupingInstruction};
use super::{BindingVisitor, Interpreter, VariableValue};
use crate::eval::{NodeRef, Value};

/// A key of a group, as keys are compared. Of nothing and of NaN there is one each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum KeyValue {
    Nothing,
    Boolean(bool),
    Number(KeyNumber),
    Text(String),
}

/// A number that is a key. Both zeros are equal, and so is NaN to itself; a group has the zero that came first.
#[derive(Clone, Copy, Debug)]
struct KeyNumber(f64);

impl KeyNumber {
    fn bits(self) -> u64 {
        if self.0.is_nan() { f64::NAN.to_bits() } else { (self.0 + 0.0).to_bits() }
    }
}

impl PartialEq for KeyNumber {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for KeyNumber {}

impl Hash for KeyNumber {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

impl KeyValue {
    fn into_value<'a>(self) -> Value<'a> {
        match self {
            Self::Nothing => Value::Nodes(Vec::new()),
            Self::Boolean(truth) => Value::Boolean(truth),
            Self::Number(KeyNumber(number)) => Value::Number(number),
            Self::Text(text) => Value::String(text.into()),
        }
    }
}

impl<'a> Interpreter<'a> {
    /// Calls back for each group of bindings that passes, in the order of their first bindings.
    pub(super) fn grouped(
        &mut self,
        each: &'a FlwrLoop,
        grouping: &'a GroupingInstruction,
        body: BindingVisitor<'a, '_>,
    ) -> Result<(), ExtractError> {
        // Keyed per process: what messages hold must not decide how far one has to look.
        let mut numbers: HashMap<Vec<KeyValue>, usize, RandomState> = HashMap::default();
        let mut groups: Vec<(Vec<KeyValue>, Vec<Vec<NodeRef>>)> = Vec::new();
        self.bindings(each, &mut |run| {
            let keys = grouping.keys.iter().map(|(_, key)| run.group_key(key)).collect::<Result<Vec<_>, _>>()?;
            let number = *numbers.entry(keys).or_insert_with_key(|keys| {
                groups.push((keys.clone(), vec![Vec::new(); grouping.collected.len()]));
                groups.len() - 1
            });
            for ((variable, _), all) in grouping.collected.iter().zip(&mut groups[number].1) {
                all.append(&mut run.evaluator.as_nodes(run.slot_value(*variable))?);
            }
            Ok(true)
        })?;
        for (keys, collected) in groups {
            for ((variable, _), key) in grouping.keys.iter().zip(keys) {
                self.slots[variable.index()] = VariableValue::Value(key.into_value());
            }
            for ((_, variable), mut all) in grouping.collected.iter().zip(collected) {
                self.evaluator.put_in_order(&mut all)?;
                self.slots[variable.index()] = VariableValue::Value(Value::Nodes(all));
            }
            for (variable, value) in &grouping.values {
                let value = self.value(value)?;
                self.slots[variable.index()] = VariableValue::Value(value);
            }
            if self.all_hold(&grouping.conditions)? && !body(self)? {
                break;
            }
        }
        Ok(())
    }

    fn group_key(&mut self, key: &'a BoundExpr) -> Result<KeyValue, ExtractError> {
        Ok(match self.value(key)? {
            Value::Boolean(truth) => KeyValue::Boolean(truth),
            Value::Number(number) => KeyValue::Number(KeyNumber(number)),
            Value::String(text) => KeyValue::Text(text.into_owned()),
            Value::Temporal(temporal) => KeyValue::Text(temporal.to_string()),
            Value::Nodes(nodes) => match nodes.first() {
                Some(&node) => KeyValue::Text(self.evaluator.string_value(node)?.into_owned()),
                None => KeyValue::Nothing,
            },
        })
    }
}
