//! Delivery between the actors of a worker: what waits, what is dropped. There is no test yet.
