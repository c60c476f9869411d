/* What every build of the library must answer; runs with an operating system and without. */
#ifndef SEMANTICS_H
#define SEMANTICS_H

/* Calls `failed` for each thing that is not as it should be; returns how many things it looked at. */
unsigned semantics(void (*failed)(const char *file, int line, const char *what));

#endif
