// The colours of the page for what is drawn on a canvas: the style sheet holds them, for light and for dark.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The value of a variable of the style sheet. */
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** The colour of the n-th of several groups; they differ for the colour-blind, too. */
export const colourOf = (n) => colour(`group-${n % 8}`);

/** Runs when the system changes between light and dark. */
export const onTheme = (run) => dark.addEventListener("change", run);
