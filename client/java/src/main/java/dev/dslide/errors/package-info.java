/** What goes wrong, one class for each code: {@code docs/operate/errors.md} says what to do. */
package dev.dslide.errors;
