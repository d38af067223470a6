// The colours of the page for what is drawn on a canvas: the style sheet holds them, for light and for dark.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The value of a variable of the style sheet. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The colour of the n-th of several groups; they differ for the colour-blind, too. */
export const colourOf = (n) => colour(`group-${n % 8}`);

const drawn = new Set();
dark.addEventListener("change", () => drawn.forEach((run) => run()));

/** Runs when the system changes between light and dark. */
export const onTheme = (run) => drawn.add(run);

/** What was drawn before is gone: a page keeps no chart of another alive. */
export const forgetDrawn = () => drawn.clear();
