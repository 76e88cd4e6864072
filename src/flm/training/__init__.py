"""The paper's recipe: a model of a given size, an optimizer, epochs; any model, any problem."""
