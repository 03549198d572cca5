import { render } from 'preact';
import { App } from './app';
import { watchRoute } from './state/route';
import { watchTheme } from './state/theme';
import './styles/index.css';

watchTheme();
watchRoute();
const root = document.getElementById('app');
if (root) render(<App />, root);
