// Light, dark, or as the system has it.

const THEMES = ['', 'dark', 'light'];

export function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name; else delete document.documentElement.dataset.theme;
  try { localStorage.setItem('wharf-theme', name); } catch { /* nothing is kept where nothing may be */ }
}

/** The one that was chosen last. */
export function restoreTheme() {
  try { const kept = localStorage.getItem('wharf-theme'); if (THEMES.includes(kept)) setTheme(kept); } catch { /* as the system has it */ }
}

/** Goes to the next one and gives its name. */
export function nextTheme() {
  const now = document.documentElement.dataset.theme ?? '';
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  setTheme(next);
  return next;
}
