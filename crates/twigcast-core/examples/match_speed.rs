//! Times matching alone, in processor time where the system tells it: `match_speed QUERIES FOLDER [ROUNDS]`, a query a
//! line, a message a file. A round takes all messages, as often as the clock needs to tell the time of one.

mod measuring;

use std::error::Error;
use std::time::Instant;

use twigcast_core::engine::Matcher;

use measuring::{Workload, processor_seconds, workload};

fn main() -> Result<(), Box<dyn Error>> {
    let Workload { engine, messages, rounds } = workload("match_speed")?;
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
