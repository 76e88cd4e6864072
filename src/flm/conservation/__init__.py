"""Conservation laws u_t + f(u)_x = 0: the law, its potential residual, growth in a moving frame; entropy and Godunov references."""
