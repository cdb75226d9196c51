//! MD5 (RFC 1321), for checksums; it protects nothing.

/// Bits by which each step rotates.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The fractions of the sines of 1 to 64, in 32 bits.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xD76A_A478, 0xE8C7_B756, 0x2420_70DB, 0xC1BD_CEEE, 0xF57C_0FAF, 0x4787_C62A,
    0xA830_4613, 0xFD46_9501, 0x6980_98D8, 0x8B44_F7AF, 0xFFFF_5BB1, 0x895C_D7BE,
    0x6B90_1122, 0xFD98_7193, 0xA679_438E, 0x49B4_0821, 0xF61E_2562, 0xC040_B340,
    0x265E_5A51, 0xE9B6_C7AA, 0xD62F_105D, 0x0244_1453, 0xD8A1_E681, 0xE7D3_FBC8,
    0x21E1_CDE6, 0xC337_07D6, 0xF4D5_0D87, 0x455A_14ED, 0xA9E3_E905, 0xFCEF_A3F8,
    0x676F_02D9, 0x8D2A_4C8A, 0xFFFA_3942, 0x8771_F681, 0x6D9D_6122, 0xFDE5_380C,
    0xA4BE_EA44, 0x4BDE_CFA9, 0xF6BB_4B60, 0xBEBF_BC70, 0x289B_7EC6, 0xEAA1_27FA,
    0xD4EF_3085, 0x0488_1D05, 0xD9D4_D039, 0xE6DB_99E5, 0x1FA2_7CF8, 0xC4AC_5665,
    0xF429_2244, 0x432A_FF97, 0xAB94_23A7, 0xFC93_A039, 0x655B_59C3, 0x8F0C_CC92,
    0xFFEF_F47D, 0x8584_5DD1, 0x6FA8_7E4F, 0xFE2C_E6E0, 0xA301_4314, 0x4E08_11A1,
    0xF753_7E82, 0xBD3A_F235, 0x2AD7_D2BB, 0xEB86_D391,
];

/// The digest of bytes; `step` is called with the size of each piece, and may end it.
pub(super) fn digest<E>(
    bytes: &[u8],
    piece: usize,
    step: &mut impl FnMut(usize) -> Result<(), E>,
) -> Result<[u8; 16], E> {
    let mut state = [0x6745_2301u32, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    let (blocks, rest) = bytes.split_at(bytes.len() / 64 * 64);
    for piece in blocks.chunks(piece.next_multiple_of(64)) {
        for block in piece.chunks_exact(64) {
            mix(&mut state, block);
        }
        step(piece.len())?;
    }
    let mut padded = rest.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block);
    }
    let mut out = [0; 16];
    for (place, word) in out.chunks_exact_mut(4).zip(state) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    Ok(out)
}

fn mix(state: &mut [u32; 4], block: &[u8]) {
    let word = |at: usize| {
        let bytes = block[4 * at..4 * at + 4].try_into().expect("four bytes of the block");
        u32::from_le_bytes(bytes)
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64 {
        let (value, at) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a.wrapping_add(value).wrapping_add(SINES[step]).wrapping_add(word(at));
        let rotated = sum.rotate_left(ROTATIONS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(rotated));
    }
    for (place, value) in state.iter_mut().zip([a, b, c, d]) {
        *place = place.wrapping_add(value);
    }
}
