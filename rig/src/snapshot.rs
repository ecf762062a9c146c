//! An empty disk image (qcow2) for QEMU to keep a machine's state in: four clusters, so that no tool is needed.

const CLUSTER: usize = 1 << 16;

/// The bytes of one. Header, table of reference counts, the counts, table of tables: a cluster each.
#[must_use]
pub fn empty() -> Vec<u8> {
    let mut bytes = vec![0; 4 * CLUSTER];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let long = |value: usize| (value as u64).to_be_bytes();
    put(0, b"QFI\xfb");
    put(4, &2u32.to_be_bytes());
    put(20, &16u32.to_be_bytes());
    put(24, &long(CLUSTER));
    put(36, &1u32.to_be_bytes());
    put(40, &long(3 * CLUSTER));
    put(48, &long(CLUSTER));
    put(56, &1u32.to_be_bytes());
    put(CLUSTER, &long(2 * CLUSTER));
    for cluster in 0..4 {
        put(2 * CLUSTER + 2 * cluster, &1u16.to_be_bytes());
    }
    bytes
}
