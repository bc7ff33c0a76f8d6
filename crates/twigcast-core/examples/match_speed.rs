//! Times matching alone, in processor time where the system tells it: `match_speed QUERIES FOLDER [ROUNDS]`, a query a
//! line, a message a file. A round takes all messages, as often as the clock needs to tell the time of one.

mod measuring;

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use measuring::{processor_seconds, read_folder};

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
    let mut best = f64::INFINITY;
    for round in 0..rounds {
        let (started, clock) = (processor_seconds(), Instant::now());
        let (mut matches, mut passes) = (0, 0);
        let mut slots = Vec::new();
        while passes == 0 || clock.elapsed().as_secs_f64() < ROUND_SECONDS && round > 0 {
            passes += 1;
            for message in &messages {
                slots.clear();
                engine.run(&mut matcher, message).map_err(|error| error.to_string())?;
                engine.slots(&matcher, &mut slots);
                matches += slots.len();
            }
        }
        let micros = (processor_seconds() - started) * 1e6 / (messages.len() * passes) as f64;
        best = best.min(if round > 0 { micros } else { best });
        println!("round {round}: {micros:.1} us a message, {} matches", matches / passes);
    }
    println!("best: {best:.2} us a message");
    Ok(())
}

/// Systems tell processor time in steps of a few milliseconds.
const ROUND_SECONDS: f64 = 0.2;
