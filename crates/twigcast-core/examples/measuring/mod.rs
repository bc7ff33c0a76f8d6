//! What the examples that time things have in common.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

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
