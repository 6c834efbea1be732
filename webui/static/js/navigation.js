// On narrow screens, where the links to the pages scroll, show that to the current page.
document.querySelector(".links [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
