//! Times matching with rewriting, without Python: `deliver_speed QUERIES FOLDER [ROUNDS]`, a query a line, a message a file.

use std::error::Error;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;
use std::{env, fs};

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::extract::Payloads;
use twigcast_core::limits::Limits;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, queries, folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: deliver_speed QUERIES FOLDER [ROUNDS]".into());
    };
    let rounds: usize = rest.first().map_or(Ok(5), |text| text.parse())?;
    let mut engine = Engine::new(Limits::default());
    let context = QueryContext::default();
    let started = Instant::now();
    for (number, query) in fs::read_to_string(queries)?.lines().enumerate() {
        engine.add(&number.to_string(), query, &context, false).map_err(|error| format!("{query}: {error:?}"))?;
    }
    println!("{} queries in {:.2} s", engine.len(), started.elapsed().as_secs_f64());
    let messages = read_folder(Path::new(folder))?;
    let mut matcher = Matcher::new();
    for round in 0..rounds {
        let started = processor_seconds();
        let (mut deliveries, mut different, mut bytes) = (0, 0, 0);
        for message in &messages {
            let mut payloads = Payloads::default();
            engine.run_delivering(&mut matcher, message).map_err(|error| error.to_string())?;
            let delivered = engine.deliver(&mut matcher, message, &mut payloads);
            deliveries += delivered.payloads.len();
            different += payloads.len();
            bytes += payloads.bytes().len();
        }
        let micros = (processor_seconds() - started) * 1e6 / messages.len() as f64;
        println!(
            "round {round}: {micros:.1} us a message, {deliveries} deliveries of {different} results, {bytes} bytes"
        );
    }
    Ok(())
}

/// Seconds that this process has run, so that other work on the machine does not count; by the clock elsewhere.
fn processor_seconds() -> f64 {
    static CLOCK: OnceLock<Instant> = OnceLock::new();
    let clock = CLOCK.get_or_init(Instant::now).elapsed().as_secs_f64();
    let statistics = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let run = statistics.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
    run.map_or(clock, |nanoseconds| nanoseconds / 1e9)
}

fn read_folder(folder: &Path) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths.iter().map(fs::read).collect::<Result<_, _>>()?)
}
