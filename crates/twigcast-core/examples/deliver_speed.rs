//! Times matching with rewriting, without Python: `deliver_speed QUERIES FOLDER [ROUNDS]`, a query a line, a message a file.

mod measuring;

use std::error::Error;

use twigcast_core::engine::Matcher;
use twigcast_core::rewrite::Payloads;

use measuring::{Workload, processor_seconds, workload};

fn main() -> Result<(), Box<dyn Error>> {
    let Workload { engine, messages, rounds } = workload("deliver_speed")?;
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
