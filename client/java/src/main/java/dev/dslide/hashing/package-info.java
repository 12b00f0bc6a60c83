/** What clients compute themselves, bit for bit as C++ does: random numbers and fingerprints. */
package dev.dslide.hashing;
