//! Constructors: the constant bytes of results around their columns, the same for all messages.

use std::array;

use rustc_hash::FxHashMap;

use crate::ids::{BindingColumnId, BindingListId, ConstructorFormId, ResultConstructorId, SkeletonId};

use super::super::program::family::SharedSkeleton;
use super::super::program::template::{Skeleton, TemplatePiece};
use super::super::run_buffer::{STEP, ShortConstant};

/// Columns of a constructor that are stored in it, without another lookup.
pub(super) const INLINE_COLUMNS: usize = 3;

/// Start and end in the constants of a form.
pub(super) type ConstantRange = (u32, u32);

/// The constant part of results, ready to be copied.
///
/// Where two values are given by array, the first applies to bindings for which a column selects something, the second
/// to bindings for which all columns are empty.
#[derive(Debug)]
pub(super) struct ConstructorForm {
    /// Markup before and after that of the bindings.
    pub prefix: Box<[u8]>,
    pub suffix: Box<[u8]>,
    /// The start tag of a binding's element with the constants before its first column, or the whole empty element.
    pub heads: [ConstantRange; 2],
    /// By place in the content: the column, and the constants after it up to and including the end tag.
    pub columns: Box<[(u32, ConstantRange)]>,
    /// The number of times that the constants after the columns are written: 0 if the head is the whole element.
    pub tails: [u32; 2],
    /// The constants, followed by a step of other bytes.
    pub constants: Box<[u8]>,
    /// Number of constant bytes of a binding's element.
    pub constant_bytes: [usize; 2],
    /// The constants of a binding's element, if each is short.
    pub shorts: Option<ShortConstants>,
}

/// Short constants around columns.
#[derive(Debug)]
pub(super) struct ShortConstants {
    pub head: ShortConstant,
    /// The element of a binding whose columns are all empty; `None` if it has the same constants as any other.
    pub empty: Option<ShortConstant>,
    /// By place in the content: the column, and the constants after it.
    pub columns: Box<[(u32, ShortConstant)]>,
}

impl ShortConstants {
    fn of(form: &ConstructorForm, constants: &[u8]) -> Option<Self> {
        let short = |(start, end): ConstantRange| ShortConstant::new(&constants[start as usize..end as usize]);
        let empty = if form.tails[1] == 0 { Some(short(form.heads[1])?) } else { None };
        let columns = form.columns.iter().map(|&(column, constant)| Some((column, short(constant)?)));
        Some(Self { head: short(form.heads[0])?, empty, columns: columns.collect::<Option<_>>()? })
    }
}

impl ConstructorForm {
    fn new(skeleton: &Skeleton) -> Self {
        let Skeleton { open, pieces, close, .. } = skeleton;
        let (mut columns, mut constants) = (Vec::<(u32, ConstantRange)>::new(), open.clone());
        let mut head = (0, open.len() as u32);
        for piece in pieces.iter().chain([&TemplatePiece::Constant(close.clone())]) {
            match piece {
                TemplatePiece::Constant(bytes) => {
                    constants.extend_from_slice(bytes);
                    columns.last_mut().map_or(&mut head, |(_, after)| after).1 = constants.len() as u32;
                }
                TemplatePiece::Column(column) => {
                    columns.push((*column as u32, (constants.len() as u32, constants.len() as u32)))
                }
            }
        }
        let bytes = constants.len();
        let mut form = Self {
            prefix: skeleton.prefix.as_slice().into(),
            suffix: skeleton.suffix.as_slice().into(),
            heads: [head; 2],
            columns: columns.into(),
            tails: [1; 2],
            constants: Box::default(),
            constant_bytes: [bytes; 2],
            shorts: None,
        };
        if !skeleton.has_content() {
            constants.extend_from_slice(&skeleton.empty);
            form.heads[1] = (bytes as u32, constants.len() as u32);
            form.tails[1] = 0;
            form.constant_bytes[1] = skeleton.empty.len();
        }
        form.shorts = ShortConstants::of(&form, &constants);
        constants.resize(constants.len() + STEP, 0);
        form.constants = constants.into();
        form
    }

    /// Returns the number of constant bytes in the result of this many bindings, at most.
    pub fn constant_bytes_max(&self, binding_count: usize) -> usize {
        let [filled, empty] = self.constant_bytes;
        self.prefix.len() + binding_count * filled.max(empty) + self.suffix.len()
    }
}

/// A form with its columns: makes results of the bindings of one list.
#[derive(Clone, Copy, Debug)]
struct ResultConstructor {
    form: ConstructorFormId,
    /// Start and end of its columns in the list of all.
    columns: (u32, u32),
    /// The first columns by place in results, padded with any column.
    inline_columns: [BindingColumnId; INLINE_COLUMNS],
}

/// All constructors. There are many and each message uses many, so they lie close together.
#[derive(Debug, Default)]
pub(super) struct ResultConstructors {
    list: Vec<ResultConstructor>,
    columns: Vec<BindingColumnId>,
    forms: Vec<ConstructorForm>,
    form_ids: FxHashMap<SkeletonId, ConstructorFormId>,
    /// By binding list: its first constructor.
    starts: Vec<ResultConstructorId>,
    /// By binding list: the columns of all its constructors.
    columns_of_list: Vec<Box<[BindingColumnId]>>,
    /// Number of columns of a constructor, at most.
    columns_max: usize,
}

impl ResultConstructors {
    /// Adds the constructors of the next binding list, each a skeleton and its columns.
    pub fn add_list<'a>(&mut self, constructors: impl Iterator<Item = (&'a SharedSkeleton, &'a [BindingColumnId])>) {
        self.starts.push(ResultConstructorId::new(self.list.len()));
        let first = self.columns.len();
        for (skeleton, columns) in constructors {
            let form = *self.form_ids.entry(skeleton.id).or_insert_with(|| {
                self.forms.push(ConstructorForm::new(&skeleton.skeleton));
                ConstructorFormId::new(self.forms.len() - 1)
            });
            let start = self.columns.len() as u32;
            self.columns.extend_from_slice(columns);
            let inline_columns = array::from_fn(|place| {
                let column = self.forms[form.index()].columns.get(place);
                column.map_or(BindingColumnId::from_u32(0), |&(column, _)| columns[column as usize])
            });
            self.list.push(ResultConstructor { form, columns: (start, self.columns.len() as u32), inline_columns });
            self.columns_max = self.columns_max.max(columns.len());
        }
        let mut columns = self.columns[first..].to_vec();
        columns.sort_unstable();
        columns.dedup();
        self.columns_of_list.push(columns.into());
    }

    /// Returns the bytes of any result, at most, for this many bindings and bytes in a column.
    pub fn bytes_max(&self, binding_count: usize, column_bytes: usize) -> usize {
        let constant = self.forms.iter().map(|form| form.constant_bytes_max(binding_count)).max().unwrap_or_default();
        constant + self.columns_max * column_bytes
    }

    /// Returns the number of constructors.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the first constructor of a binding list and how many it has.
    pub fn of_list(&self, list: BindingListId) -> (ResultConstructorId, usize) {
        let start = self.starts[list.index()];
        let end = self.starts.get(list.index() + 1).map_or(self.list.len(), |end| end.index());
        (start, end - start.index())
    }

    /// Returns the columns of all constructors of a binding list, ascending.
    pub fn columns_of_list(&self, list: BindingListId) -> &[BindingColumnId] {
        &self.columns_of_list[list.index()]
    }

    /// Returns the columns of a constructor.
    #[inline]
    pub fn columns(&self, id: ResultConstructorId) -> &[BindingColumnId] {
        let (start, end) = self.list[id.index()].columns;
        &self.columns[start as usize..end as usize]
    }

    /// Returns the first columns of a constructor by place in results, padded with any column.
    #[inline]
    pub fn inline_columns(&self, id: ResultConstructorId) -> [BindingColumnId; INLINE_COLUMNS] {
        self.list[id.index()].inline_columns
    }

    /// Returns the form of a constructor.
    #[inline]
    pub fn form_of(&self, id: ResultConstructorId) -> ConstructorFormId {
        self.list[id.index()].form
    }

    /// Returns a form.
    #[inline]
    pub fn form(&self, id: ConstructorFormId) -> &ConstructorForm {
        &self.forms[id.index()]
    }
}
