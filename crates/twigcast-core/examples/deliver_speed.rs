//! Times matching with rewriting, without Python: `deliver_speed QUERIES FOLDER [ROUNDS]`, a query a line, a message a file.

mod measuring;

use std::error::Error;
use std::path::Path;
use std::time::Instant;
use std::{env, fs};

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;
use twigcast_core::rewrite::Payloads;

use measuring::{processor_seconds, read_folder};

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
    let (mut matcher, mut memory) = (Matcher::new(), Vec::new());
    for round in 0..rounds {
        let started = processor_seconds();
        let (mut deliveries, mut different, mut bytes) = (0, 0, 0);
        for message in &messages {
            let mut payloads = Payloads::default().with_memory(std::mem::take(&mut memory));
            engine.run_delivering(&mut matcher, message).map_err(|error| error.to_string())?;
            let delivered = engine.deliver(&mut matcher, message, &mut payloads);
            deliveries += delivered.slots.len();
            different += payloads.len();
            bytes += payloads.bytes().len();
            (memory, _) = payloads.into_parts();
        }
        let built = processor_seconds();
        for message in &messages {
            engine.prepare(&mut matcher, message, &mut Payloads::default()).map_err(|error| error.to_string())?;
        }
        let micros = |seconds: f64| seconds * 1e6 / messages.len() as f64;
        println!(
            "round {round}: {:.1} us a message, {:.1} without putting results together; {deliveries} deliveries of \
             {different} results, {bytes} bytes",
            micros(built - started),
            micros(processor_seconds() - built),
        );
    }
    Ok(())
}
