/** Labelled sparse points, and the orders in which trainers in all languages visit them. */
package dev.dslide.data;
