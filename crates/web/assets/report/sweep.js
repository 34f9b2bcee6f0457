// A sweep's report in the browser: everything is in the page.

import { h, replace } from '/dom.js';
import { nextTheme, restoreTheme } from '/theme.js';
import { sweepView } from '/widgets/sweep.js';

restoreTheme();
document.querySelector('.top .side').append(h('button', { type: 'button', class: 'icon', title: 'Light or dark', 'aria-label': 'Light or dark', on: { click: () => nextTheme() } }, '◐'));
const view = sweepView();
view.set(JSON.parse(document.getElementById('sweep').textContent));
replace(document.getElementById('view'), view.node);
