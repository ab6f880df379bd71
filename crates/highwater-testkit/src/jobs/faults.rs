//! J6 and the error's three answers: calls and answers get lost, and nothing is lost or doubled.

use std::sync::Arc;

use highwater::jobs::{Deleted, Draft, Filter, JobStore, Manager, ManagerOptions, Status};

use crate::{
    clock::ManualClock,
    faulty::{Fate, FaultyStore},
    promise::{Bed, job_id, promises, tag},
};

promises![a_loss_at_any_call_is_survived, losses_by_chance_are_survived,];

/// A worker's life over a store that may lose things: what it did must have happened once.
pub async fn live_a_life(job: &str, store: Arc<dyn JobStore>) {
    let options =
        ManagerOptions { clock: Arc::new(ManualClock::jumping()), ..ManagerOptions::default() };
    let manager = Manager::open(store, job_id(job), 0, 1, options).await.unwrap();
    for status in 1..=5 {
        let written = manager.set_state(Draft::new(tag("t"), Status(status))).await.unwrap();
        assert_eq!(written.report().version.0, u64::from(status.unsigned_abs()), "doubled or lost");
    }
    assert_eq!(manager.get_state(&Filter::job()).await.unwrap().status, Status(5));
    assert_eq!(manager.delete().await.unwrap(), Deleted::Done);
}

/// The fault strikes at the first call, at the second, and so on, until the life runs clean.
async fn a_loss_at_any_call_is_survived(bed: Bed) {
    for fate in [Fate::RequestLost, Fate::ReplyLost] {
        for call in 1.. {
            let faulty = Arc::new(FaultyStore::at(Arc::clone(&bed.jobs), call, fate));
            live_a_life(&format!("{fate:?} at {call}"), Arc::clone(&faulty) as Arc<dyn JobStore>)
                .await;
            if faulty.calls() < call {
                assert!(call > 8, "a life has more calls than {call}");
                break;
            }
        }
    }
}

async fn losses_by_chance_are_survived(bed: Bed) {
    for seed in 1..=20 {
        let faulty = FaultyStore::seeded(Arc::clone(&bed.jobs), seed, 10);
        live_a_life(&format!("seed {seed}"), Arc::new(faulty)).await;
    }
}
