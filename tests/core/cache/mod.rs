//! Cache and transfer on nodes that are directories and ranks that are threads.

mod background;
mod catalogs;
mod cluster;
mod crash;
mod damage;
mod durable;
mod faults;
mod fetch;
mod flush;
mod generations;
mod half;
mod job;
mod other_size;
mod random;
mod reading;
mod restart;
mod serving;
mod shapes;
mod spoiled;
mod stores;
mod survey;
mod table;
mod touch;
mod trust;
mod verify;
mod window;
