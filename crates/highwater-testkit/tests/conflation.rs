//! A watcher that is slower than the writers skips pictures.

use std::sync::Arc;

use highwater::{
    jobs::{Draft, Filter, JobId, Manager, ManagerOptions, Status, Tag},
    memory::MemoryStore,
};

#[tokio::test]
async fn changes_that_wait_together_make_few_pictures() {
    let store = Arc::new(MemoryStore::default());
    let job = JobId::new("job").unwrap();
    let task = Manager::open(store, job, 0, 1, ManagerOptions::default()).await.unwrap();
    let mut watch = task.watch_summary(Filter::job()).await.unwrap();
    watch.next().await.unwrap().unwrap();
    for status in 1..=5_000 {
        task.set_state(Draft::new(Tag::new("t").unwrap(), Status(status))).await.unwrap();
    }
    let mut pictures = 0;
    let mut last = Status::NOT_STARTED;
    while last != Status(5_000) {
        last = watch.next().await.unwrap().unwrap().lowest.status;
        pictures += 1;
    }
    // At most one per 1,024 changes, so that a nonstop writer cannot keep the watcher silent.
    assert!((4..=6).contains(&pictures), "{pictures} pictures of 5,000 changes");
}
