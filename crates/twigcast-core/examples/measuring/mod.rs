//! The parts that the examples that time things have in common.

#![allow(dead_code, reason = "no example uses all of it")]

use std::error::Error;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;
use std::{env, fs};

use twigcast_core::engine::{Engine, QueryContext};
use twigcast_core::limits::Limits;

/// Seconds that this process has run, so that other work on the machine does not count; by the clock elsewhere.
pub fn processor_seconds() -> f64 {
    static CLOCK: OnceLock<Instant> = OnceLock::new();
    let clock = CLOCK.get_or_init(Instant::now).elapsed().as_secs_f64();
    let statistics = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let run = statistics.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
    run.map_or(clock, |nanoseconds| nanoseconds / 1e9)
}

/// The files of a folder, in the order of their names.
pub fn read_folder(folder: &Path) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths.iter().map(fs::read).collect::<Result<_, _>>()?)
}

/// What a measurement works on.
pub struct Workload {
    pub engine: Engine,
    pub messages: Vec<Vec<u8>>,
    pub rounds: usize,
}

/// Reads the arguments `QUERIES FOLDER [ROUNDS]`, and adds the queries to an engine.
pub fn workload(name: &str) -> Result<Workload, Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, queries, folder, rest @ ..] = arguments.as_slice() else {
        return Err(format!("usage: {name} QUERIES FOLDER [ROUNDS]").into());
    };
    let rounds: usize = rest.first().map_or(Ok(5), |text| text.parse())?;
    let mut engine = Engine::new(Limits::default());
    let context = QueryContext::default();
    let started = Instant::now();
    for (number, query) in fs::read_to_string(queries)?.lines().enumerate() {
        engine.add(&number.to_string(), query, &context, false).map_err(|error| format!("{query}: {error:?}"))?;
    }
    println!("{} queries in {:.2} s", engine.len(), started.elapsed().as_secs_f64());
    Ok(Workload { engine, messages: read_folder(Path::new(folder))?, rounds })
}
