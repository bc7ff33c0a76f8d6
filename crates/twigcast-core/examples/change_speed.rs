//! Times messages after changes, in processor time where the system tells it: `change_speed QUERIES FOLDER [ROUNDS]`, a
//! query a line, a message a file. The first 100,000 queries are there from the start, and at least 3,000 more are needed.
//! For each kind of change, a round makes a set and changes 1,000 queries three times; it times the first message and the
//! pass over all messages after each.

mod measuring;

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use twigcast_core::engine::{Engine, Matcher, QueryContext};
use twigcast_core::limits::Limits;

use measuring::{processor_seconds, read_folder};

/// Having let others run, the system tells it as it is now.
fn processor_time() -> f64 {
    std::thread::yield_now();
    processor_seconds()
}

const CHANGED: usize = 1_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, queries, folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: change_speed QUERIES FOLDER [ROUNDS]".into());
    };
    let rounds: usize = rest.first().map_or(Ok(10), |text| text.parse())?;
    let text = fs::read_to_string(queries)?;
    let queries: Vec<&str> = text.lines().collect();
    let messages = read_folder(Path::new(folder))?;
    let context = QueryContext::default();
    for kind in ["add", "remove", "replace"] {
        let mut figures: Vec<Vec<[f64; 5]>> = Vec::new();
        for round in 0..rounds {
            let base = queries.len().min(100_000);
            let mut engine = Engine::new(Limits::default());
            for (number, query) in queries[..base].iter().enumerate() {
                engine.add(&format!("b{number}"), query, &context, false).map_err(|e| format!("{e:?}"))?;
            }
            let mut matcher = Matcher::new();
            let mut slots = Vec::new();
            let pass = |engine: &Engine,
                        matcher: &mut Matcher,
                        slots: &mut Vec<u32>,
                        count: usize|
             -> Result<f64, Box<dyn Error>> {
                let started = processor_time();
                for message in &messages[..count] {
                    slots.clear();
                    engine.run(matcher, message).map_err(|error| error.to_string())?;
                    engine.slots(matcher, slots);
                }
                Ok((processor_time() - started) * 1e6)
            };
            pass(&engine, &mut matcher, &mut slots, messages.len())?;
            let usual = (0..5)
                .map(|_| pass(&engine, &mut matcher, &mut slots, messages.len()))
                .collect::<Result<Vec<_>, _>>()?;
            let usual = usual.into_iter().fold(f64::INFINITY, f64::min);
            for step in 0..6 {
                let started = processor_time();
                for number in step * CHANGED..(step + 1) * CHANGED {
                    let key = format!("b{}", number * 7 % base);
                    let new = queries[base + number];
                    match kind {
                        "add" => engine.add(&format!("n{number}"), new, &context, false).map(|_| ()),
                        "remove" => {
                            engine.remove(&key);
                            Ok(())
                        }
                        _ => engine.add(&key, new, &context, true).map(|_| ()),
                    }
                    .map_err(|error| format!("{error:?}"))?;
                }
                let change = (processor_time() - started) * 1e6;
                let started = processor_time();
                engine.follow(&mut matcher);
                let follow = (processor_time() - started) * 1e6;
                let first = pass(&engine, &mut matcher, &mut slots, 1)?;
                let whole = pass(&engine, &mut matcher, &mut slots, messages.len())?;
                let after = (0..3)
                    .map(|_| pass(&engine, &mut matcher, &mut slots, messages.len()))
                    .collect::<Result<Vec<_>, _>>()?;
                let after = after.into_iter().fold(f64::INFINITY, f64::min);
                if round == 0 {
                    figures.push(Vec::new());
                }
                figures[step].push([change, first, whole / usual, after / usual, follow]);
            }
            if round == 0 {
                println!("{kind}: usual {:.2} us a message", usual / messages.len() as f64);
            }
        }
        for (step, figures) in figures.iter().enumerate() {
            let median = |index: usize| {
                let mut all: Vec<f64> = figures.iter().map(|figures| figures[index]).collect();
                all.sort_by(f64::total_cmp);
                (all[all.len() / 2], all[0])
            };
            let ((change, _), (first, first_best), (whole, whole_best), (after, after_best)) =
                (median(0), median(1), median(2), median(3));
            let (follow, follow_best) = median(4);
            println!(
                "{kind} {step}: change {change:.0} us, follow {follow:.0} (best {follow_best:.0}) us, first {first:.1} (best {first_best:.1}) us, pass {whole:.2} \
                 ({whole_best:.2}), usual after {after:.2} ({after_best:.2}) of the usual before"
            );
        }
    }
    Ok(())
}
