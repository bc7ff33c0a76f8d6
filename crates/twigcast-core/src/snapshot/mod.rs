//! A subscription population in a file.
//!
//! The file holds keys, texts and contexts, and is compiled again when it is loaded: compiling is about as fast as
//! reading the compiled form would be, the file stays small, and it does not age with the engine's inside.
//!
//! Layout, all integers little-endian: magic `TWIGSNAP`, format version (u32), length of the body in bytes (u64), CRC-32
//! of the body (u32), body. The body: number of contexts (u32), each a dialect (u8), the name of a group, and namespaces
//! (u32, then prefix and URI as strings), and parameters (u32, then name and value); number of subscriptions (u64), each
//! a context number (u32), key and text as strings. A string is its length in bytes (u32) and its UTF-8. A value of a
//! parameter is a kind (u8) and a string, a number (8 bytes), a truth value (u8), or a list (u32, then its values).
//!
//! Format 1, which Twigcast 0.1.0 wrote, has neither groups nor parameters, and is read too.
//!
//! ```
//! use twigcast_core::engine::{Engine, QueryContext};
//! use twigcast_core::limits::Limits;
//! use twigcast_core::snapshot;
//!
//! let mut engine = Engine::new(Limits::default());
//! engine.add("prices", "/feed//price", &QueryContext::default(), false).expect("a valid query");
//! let path = std::env::temp_dir().join(format!("snapshot-example-{}", std::process::id()));
//! snapshot::save(&engine, &path).expect("written");
//! let loaded = snapshot::load(&path, Limits::default()).expect("read");
//! std::fs::remove_file(&path).expect("removed");
//! assert_eq!(loaded.slot_of("prices").and_then(|slot| loaded.key(slot)), Some("prices"));
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::{AddError, Engine, QueryContext, SubscriptionRecord};
use crate::limits::Limits;
use crate::query::{Dialect, ParameterValue, Parameters};

const MAGIC: &[u8; 8] = b"TWIGSNAP";
const VERSION: u32 = 3;
/// The format of Twigcast 0.1.0.
const FIRST_VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 8 + 4;

/// Subscriptions of one context in a row that are added at once.
const RUN: usize = 1 << 12;

/// The reason why a snapshot could not be written or read.
#[derive(Debug)]
pub enum SnapshotError {
    /// The file system said no.
    Io(io::Error),
    /// The file is no snapshot at all.
    NotASnapshot,
    /// The file was written in another format.
    Version(u32),
    /// The file was cut or changed after it was written.
    Damaged(&'static str),
    /// A subscription is refused under the limits given.
    Refused {
        /// Its key.
        key: String,
        /// The reason.
        error: AddError,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NotASnapshot => write!(f, "this is not a snapshot of a subscription set"),
            Self::Version(found) => {
                write!(
                    f,
                    "this snapshot has format {found}, and this version of Twigcast reads the formats {FIRST_VERSION} \
                     and {VERSION}; save it again"
                )
            }
            Self::Damaged(what) => write!(f, "this snapshot is damaged: {what}"),
            Self::Refused { key, error } => match error {
                AddError::DuplicateKey => write!(f, "this snapshot is damaged: it holds the key {key:?} twice"),
                AddError::Query(error) => write!(f, "its subscription {key:?} is refused: {error}"),
            },
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes an engine's subscriptions: to a temporary file beside `path`, synced, then renamed over it, so that `path` at
/// all times holds either the old snapshot or the new one.
///
/// # Errors
/// The file system said no; `path` is as it was.
pub fn save(engine: &Engine, path: &Path) -> Result<(), SnapshotError> {
    // A device or a pipe would be replaced by the file, not written to; of folders the system says so itself.
    if fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file").into());
    }
    let body = encode(engine);
    let temporary = beside(path);
    let written = write_synced(&temporary, &body).and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is what the caller needs to hear of; a left-over temporary file is harmless.
        let _ = fs::remove_file(&temporary);
        return Err(error.into());
    }
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{number}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn write_synced(path: &Path, body: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(MAGIC)?;
    file.write_all(&VERSION.to_le_bytes())?;
    file.write_all(&(body.len() as u64).to_le_bytes())?;
    file.write_all(&crc32fast::hash(body).to_le_bytes())?;
    file.write_all(body)?;
    file.sync_all()
}

fn encode(engine: &Engine) -> Vec<u8> {
    let mut contexts: Vec<(&QueryContext, &str)> = Vec::new();
    let mut numbers: HashMap<(&QueryContext, &str), u32> = HashMap::new();
    let mut subscriptions = Vec::new();
    let mut count: u64 = 0;
    for SubscriptionRecord { key, text, context, group } in engine.subscriptions() {
        let number = *numbers.entry((context, group)).or_insert_with(|| {
            contexts.push((context, group));
            contexts.len() as u32 - 1
        });
        subscriptions.extend_from_slice(&number.to_le_bytes());
        put(&mut subscriptions, key);
        put(&mut subscriptions, &text);
        count += 1;
    }
    let mut body = Vec::with_capacity(subscriptions.len() + 1024);
    body.extend_from_slice(&(contexts.len() as u32).to_le_bytes());
    for (context, group) in contexts {
        body.push(match context.dialect {
            Dialect::XPath => 0,
            Dialect::Legacy => 1,
            Dialect::XQuery => 2,
            Dialect::Doubles => 3,
            Dialect::Native => 4,
        });
        put(&mut body, group);
        body.extend_from_slice(&(context.namespaces.len() as u32).to_le_bytes());
        for (prefix, uri) in &context.namespaces {
            put(&mut body, prefix);
            put(&mut body, uri);
        }
        body.extend_from_slice(&(context.parameters.len() as u32).to_le_bytes());
        for (name, value) in &context.parameters {
            put(&mut body, name);
            put_value(&mut body, value);
        }
    }
    body.extend_from_slice(&count.to_le_bytes());
    body.append(&mut subscriptions);
    body
}

fn put(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(&(text.len() as u32).to_le_bytes());
    body.extend_from_slice(text.as_bytes());
}

fn put_value(body: &mut Vec<u8>, value: &ParameterValue) {
    match value {
        ParameterValue::Text(text) => {
            body.push(0);
            put(body, text);
        }
        ParameterValue::Number(number) => {
            body.push(1);
            body.extend_from_slice(&number.to_le_bytes());
        }
        ParameterValue::Boolean(truth) => body.extend_from_slice(&[2, u8::from(*truth)]),
        ParameterValue::List(values) => {
            body.push(3);
            body.extend_from_slice(&(values.len() as u32).to_le_bytes());
            values.iter().for_each(|value| put_value(body, value));
        }
    }
}

/// Reads a snapshot and compile its subscriptions.
///
/// # Errors
/// See [`SnapshotError`]. No file, however damaged, makes it panic or take more memory than the file's size calls for.
pub fn load(path: &Path, limits: Limits) -> Result<Engine, SnapshotError> {
    let mut file = File::open(path)?;
    let mut data = Vec::new();
    file.read_to_end(&mut data)?;
    let (version, body) = check(&data)?;
    let mut reader = SnapshotReader { rest: body };
    let contexts = read_contexts(&mut reader, version)?;
    let count = reader.u64()?;
    let mut engine = Engine::new(limits);
    let mut run = Vec::new();
    let mut of_run = 0;
    for _ in 0..count {
        let context = reader.u32()? as usize;
        if context != of_run || run.len() == RUN {
            add_run(&mut engine, &mut run, contexts.get(of_run))?;
            of_run = context;
        }
        run.push((reader.text()?, reader.text()?));
    }
    add_run(&mut engine, &mut run, contexts.get(of_run))?;
    if !reader.rest.is_empty() {
        return Err(SnapshotError::Damaged("it goes on after its end"));
    }
    Ok(engine)
}

/// Adds subscriptions of one context, which are read ahead together.
fn add_run(
    engine: &mut Engine,
    run: &mut Vec<(&str, &str)>,
    context: Option<&(QueryContext, &str)>,
) -> Result<(), SnapshotError> {
    if run.is_empty() {
        return Ok(());
    }
    let (context, group) = context.ok_or(SnapshotError::Damaged("a subscription refers to no context"))?;
    let refused = engine.add_many(run, context, false).refused.into_iter().next();
    if let Some((index, error)) = refused {
        return Err(SnapshotError::Refused { key: run[index].0.to_owned(), error });
    }
    if !group.is_empty() {
        for (key, _) in &*run {
            engine.assign_group(key, group);
        }
    }
    run.clear();
    Ok(())
}

/// Returns the version and the body, once magic, version, length and checksum hold.
fn check(data: &[u8]) -> Result<(u32, &[u8]), SnapshotError> {
    if !data.starts_with(MAGIC) {
        return Err(SnapshotError::NotASnapshot);
    }
    let mut header =
        SnapshotReader { rest: data.get(8..HEADER_BYTES).ok_or(SnapshotError::Damaged("its header is cut"))? };
    let version = header.u32()?;
    if version != VERSION && version != FIRST_VERSION {
        return Err(SnapshotError::Version(version));
    }
    let length = header.u64()?;
    let checksum = header.u32()?;
    let body = &data[HEADER_BYTES..];
    if body.len() as u64 != length {
        return Err(SnapshotError::Damaged("its length is not what its header says"));
    }
    if crc32fast::hash(body) != checksum {
        return Err(SnapshotError::Damaged("its checksum does not agree"));
    }
    Ok((version, body))
}

fn read_contexts<'a>(
    reader: &mut SnapshotReader<'a>,
    version: u32,
) -> Result<Vec<(QueryContext, &'a str)>, SnapshotError> {
    let mut contexts = Vec::new();
    for _ in 0..reader.u32()? {
        let dialect = match reader.take(1)?[0] {
            0 => Dialect::XPath,
            1 => Dialect::Legacy,
            2 => Dialect::XQuery,
            3 => Dialect::Doubles,
            4 => Dialect::Native,
            _ => return Err(SnapshotError::Damaged("it names a dialect that does not exist")),
        };
        let group = if version == FIRST_VERSION { "" } else { reader.text()? };
        let mut namespaces = BTreeMap::new();
        for _ in 0..reader.u32()? {
            let prefix = reader.text()?.to_owned();
            namespaces.insert(prefix, reader.text()?.to_owned());
        }
        let mut parameters = Parameters::new();
        let count = if version == FIRST_VERSION { 0 } else { reader.u32()? };
        for _ in 0..count {
            let name = reader.text()?.to_owned();
            parameters.insert(name, reader.value(true)?);
        }
        contexts.push((QueryContext { namespaces, dialect, parameters }, group));
    }
    Ok(contexts)
}

struct SnapshotReader<'a> {
    rest: &'a [u8],
}

impl<'a> SnapshotReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(SnapshotError::Damaged("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Returns the value of a parameter, which may be a list if it stands in none.
    fn value(&mut self, may_be_list: bool) -> Result<ParameterValue, SnapshotError> {
        Ok(match self.take(1)?[0] {
            0 => ParameterValue::Text(self.text()?.into()),
            1 => ParameterValue::Number(f64::from_bits(self.u64()?)),
            2 => ParameterValue::Boolean(self.take(1)?[0] == 1),
            3 if may_be_list => {
                let count = self.u32()?;
                ParameterValue::List((0..count).map(|_| self.value(false)).collect::<Result<_, _>>()?)
            }
            _ => return Err(SnapshotError::Damaged("a parameter has a value of a kind that does not exist")),
        })
    }

    fn text(&mut self) -> Result<&'a str, SnapshotError> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).map_err(|_| SnapshotError::Damaged("it holds text that is not UTF-8"))
    }
}
