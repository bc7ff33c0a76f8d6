//! Times matching alone: `match_speed QUERIES FOLDER [ROUNDS]`, a query a line, a message a file.

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, queries, folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: match_speed QUERIES FOLDER [ROUNDS]".into());
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
        let started = Instant::now();
        let mut matches = 0;
        let mut slots = Vec::new();
        for message in &messages {
            slots.clear();
            engine.run(&mut matcher, message).map_err(|error| error.to_string())?;
            engine.slots(&matcher, &mut slots);
            matches += slots.len();
        }
        let micros = started.elapsed().as_secs_f64() * 1e6 / messages.len() as f64;
        println!("round {round}: {micros:.1} us a message, {matches} matches");
    }
    Ok(())
}

fn read_folder(folder: &Path) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut paths: Vec<_> = fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths.iter().map(fs::read).collect::<Result<_, _>>()?)
}
